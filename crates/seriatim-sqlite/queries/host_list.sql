-- All hosts, by name.
select name, session, feeds, beat, seen_at, troubles, expire, progress from seriatim_host order by name
