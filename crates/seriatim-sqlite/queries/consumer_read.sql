-- One consumer of any capture.
select id, capture, start, snapshot, snapshot_at, total, consumed, seen_at from seriatim_consumer where feed = ?1 and store = ?2
