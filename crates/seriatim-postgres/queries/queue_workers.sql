-- All workers, by name.
select name, session, beat, seen_at, expire from seriatim.queue_worker where queue = $1 order by name
