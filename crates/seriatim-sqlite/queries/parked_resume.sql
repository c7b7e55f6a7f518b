-- The owner tries a parked object again by itself.
update seriatim_parked set retrying = 1 where feed = ?1 and object = ?2
