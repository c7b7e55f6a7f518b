-- Forgets all events of a queue.
delete from seriatim_queue_event where queue = ?1
