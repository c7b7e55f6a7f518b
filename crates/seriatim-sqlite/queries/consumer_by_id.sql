-- The registration that a place in a backfill belongs to.
select id, capture, start, snapshot, snapshot_at, total, consumed, seen_at from seriatim_consumer where id = ?1
