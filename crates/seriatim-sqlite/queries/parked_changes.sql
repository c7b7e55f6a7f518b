-- The changes kept for an object, in order.
select change from seriatim_parked_change where feed = ?1 and object = ?2 order by seq limit ?3
