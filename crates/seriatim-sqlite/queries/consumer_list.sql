-- The consumers of a feed (?1) whose captures are of this kind (?2) and this table (?3).
select c.store, c.start, c.snapshot, c.consumed, c.shown, c.seen_at from seriatim_consumer c
join seriatim_capture k on k.id = c.capture
where c.feed = ?1 and k.kind = ?2 and k.table_name = ?3 collate nocase
