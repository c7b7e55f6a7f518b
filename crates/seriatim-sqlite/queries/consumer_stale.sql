-- Consumers that nobody has heard of since a moment, and that hold changes back.
select feed, store, consumed, seen_at from seriatim_consumer where capture = ?1 and seen_at < ?2 and consumed < ?3 order by consumed
