-- Takes a worker out.
delete from seriatim_queue_worker where queue = ?1 and name = ?2 and session = ?3
