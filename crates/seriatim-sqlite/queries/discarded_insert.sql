-- Remembers a discard.
insert into seriatim_discarded (feed, partition, key, first_id, last_id, changes, error, reason, at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, cast(unixepoch('subsec') * 1000 as integer))
