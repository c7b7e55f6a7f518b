-- Takes an object off the queue.
update seriatim_queue_object set queued = null where queue = ?1 and object = ?2
