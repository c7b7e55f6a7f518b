-- Whether an object has events.
select exists (select 1 from seriatim_queue_event where queue = ?1 and object = ?2)
