-- Counts a sign of life.
update seriatim_queue_worker set beat = beat + 1, seen_at = cast(unixepoch('subsec') * 1000 as integer)
where queue = ?1 and name = ?2 and session = ?3
