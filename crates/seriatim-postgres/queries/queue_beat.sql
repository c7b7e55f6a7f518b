-- Counts a sign of life.
update seriatim.queue_worker set beat = beat + 1, seen_at = clock_timestamp()
where queue = $1 and name = $2 and session = $3
returning beat
