-- Forgets the events of an object that were sent.
delete from seriatim_queue_event where queue = ?1 and object = ?2 and id <= ?3
