-- The host that holds a name. Its lock is `held`, `free` although it took it in this life of the server, or `unknown`.
select session, beat, expire, lock_number,
    case
        when locked_in is distinct from pg_postmaster_start_time() then 'unknown'
        when exists (
            select 1 from pg_locks
            where locktype = 'advisory' and objsubid = 1 and granted
                and database = (select oid from pg_database where datname = current_database())
                and (classid::bigint << 32) | objid::bigint = lock_key
        ) then 'held'
        else 'free'
    end
from seriatim.host
where name = $1
