-- Enters a host, in place of whoever held its name.
insert or replace into seriatim_host (name, session, feeds, beat, seen_at, expire)
values (?1, ?2, ?3, 0, cast(unixepoch('subsec') * 1000 as integer), ?4)
