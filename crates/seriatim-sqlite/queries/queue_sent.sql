-- Notes the last event of an object that was sent.
update seriatim_queue_object
set last_id = coalesce(
    (select max(id) from seriatim_queue_event where queue = ?1 and object = ?2 and id <= ?3), last_id)
where queue = ?1 and object = ?2
