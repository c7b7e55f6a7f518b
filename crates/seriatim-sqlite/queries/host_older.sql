-- The hosts of an older version, by name.
select name, session, feeds, beat, seen_at, troubles, expire, progress from seriatim_host where expire is null order by name
