-- The hosts that took their lock in this life of the server: whether it is free, and whether this connection holds it.
select host.session, host.lock_number, locks.pid is null, coalesce(locks.pid = pg_backend_pid(), false)
from seriatim.host
left join pg_locks locks
    on locks.locktype = 'advisory' and locks.objsubid = 1 and locks.granted
        and locks.database = (select oid from pg_database where datname = current_database())
        and (locks.classid::bigint << 32) | locks.objid::bigint = host.lock_key
where host.locked_in = pg_postmaster_start_time()
