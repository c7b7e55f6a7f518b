-- Marks a parked object of a feed, or (null) all of them, to be tried again.
update seriatim_parked set retrying = 1, attempts = 0 where feed = ?1 and (?2 is null or object = ?2)
