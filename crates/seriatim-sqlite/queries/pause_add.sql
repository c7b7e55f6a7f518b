-- Pauses a feed, if it is not paused.
insert into seriatim_paused (feed, since) values (?1, cast(unixepoch('subsec') * 1000 as integer)) on conflict (feed) do nothing
