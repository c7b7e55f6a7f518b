-- Registers a consumer.
insert into seriatim_consumer (capture, feed, store, start, snapshot, snapshot_at, total, consumed, seen_at, shown)
values (?1, ?2, ?3, '', ?4, ?5, ?6, ?7, ?5, ?7)
