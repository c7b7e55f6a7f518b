-- Draws ids for so many events, all greater than what the object has seen; returns the last.
update seriatim_queue
set last_id = ?3 + max(last_id, (
    select coalesce(last_id, 0) from seriatim_queue_object where queue = ?1 and object = ?2
))
where name = ?1
returning last_id
