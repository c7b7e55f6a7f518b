-- Adds an event to an object.
insert into seriatim_queue_event (queue, object, body) values (?1, ?2, ?3)
