-- Enters a host under its name, if that is free or held by the session to be replaced ($5), which has not beaten since ($6).
insert into seriatim.host (name, session, feeds, beat, seen_at, lock_key, expire)
values ($1, $2, $3, 0, clock_timestamp(), $4, $7)
on conflict (name) do update
set session = excluded.session, feeds = excluded.feeds, beat = 0, seen_at = excluded.seen_at,
    lock_key = excluded.lock_key, lock_number = 0, locked_in = null, troubles = excluded.troubles,
    expire = excluded.expire, progress = 0
where host.session = $5 and ($6::bigint is null or host.beat = $6)
