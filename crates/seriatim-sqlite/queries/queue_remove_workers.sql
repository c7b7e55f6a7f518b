-- Takes all workers out of a queue.
delete from seriatim_queue_worker where queue = ?1
