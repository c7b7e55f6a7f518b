-- Stamps an event.
update seriatim_queue_event set id = ?2, stamped_at = ?3 where seq = ?1
