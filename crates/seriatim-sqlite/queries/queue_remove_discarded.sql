-- Forgets what was discarded of a queue.
delete from seriatim_queue_discarded where queue = ?1
