-- Remembers a discard.
insert into seriatim_queue_discarded (queue, object, first_id, last_id, events, error, reason, at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, cast(unixepoch('subsec') * 1000 as integer))
