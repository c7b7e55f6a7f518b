-- Who relays: epoch, the session that appends, its last sign of life, and whether that session holds its lock.
select l.epoch, l.pid, l.beat, exists (
    select from pg_locks k
    where k.locktype = 'advisory' and k.objsubid = 1 and k.granted
        and k.database = (select d.oid from pg_database d where d.datname = current_database())
        and (k.classid::bigint << 32) | k.objid::bigint = hashtextextended('seriatim.relay', 0)
)
from seriatim.relay_lease l
