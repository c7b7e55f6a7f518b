-- The mark (as partition -1), the leases of some feeds, then all hosts, as they are at one moment. A host's lock is `held`, `free` although it took it in
-- this life of the server, or `unknown`.
with locks as materialized (
    select (classid::bigint << 32) | objid::bigint as key
    from pg_locks
    where locktype = 'advisory' and objsubid = 1 and granted
        and database = (select oid from pg_database where datname = current_database())
)
select '' as name, -1 as partition, null::text as owner, null::text as session, 0::bigint as epoch, moved as version,
    null::text as position, null::text as hand_over_to, 0::bigint as asked, null::text[] as feeds,
    null::timestamptz as seen_at, null::integer as lock_number, null::text as lock, null::text as troubles,
    null::bigint as expire, 0::bigint as progress, null::text as part
from seriatim.lease_mark
union all
select feed, partition, owner, session, epoch, version, position, hand_over_to, asked,
    null, null, null, null, null, null, 0, part
from seriatim.lease
where feed = any ($1::text[])
union all
select name, null, null, session, 0, beat, null, null, 0, feeds, seen_at, lock_number,
    case
        when locked_in is distinct from pg_postmaster_start_time() then 'unknown'
        when lock_key in (select key from locks) then 'held'
        else 'free'
    end,
    troubles, expire, progress, null
from seriatim.host
