-- Enters a worker.
insert into seriatim_queue_worker (queue, name, session, beat, seen_at, expire)
values (?1, ?2, ?3, 0, cast(unixepoch('subsec') * 1000 as integer), ?4)
