-- Forgets all events of an object.
delete from seriatim_queue_event where queue = ?1 and object = ?2
