-- Gives an object to a worker.
update seriatim_queue_object set worker = ?3, session = ?4, epoch = ?5 where queue = ?1 and object = ?2
