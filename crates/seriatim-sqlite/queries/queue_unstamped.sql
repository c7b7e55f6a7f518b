-- The next events of an object that are not stamped.
select seq from seriatim_queue_event where queue = ?1 and object = ?2 and id is null order by seq limit ?3
