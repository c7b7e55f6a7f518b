-- Forgets all objects of a queue.
delete from seriatim_queue_object where queue = ?1
