-- Whoever has given numbers in a log ($1) for more than a second without a commit.
select a.pid, coalesce(a.usename, '')::text, coalesce(a.application_name, ''),
    extract(epoch from clock_timestamp() - a.xact_start)::float8
from pg_catalog.pg_locks k join pg_catalog.pg_stat_activity a on a.pid = k.pid
where k.locktype = 'advisory' and k.granted and k.objsubid = 1
  and k.database = (select d.oid from pg_catalog.pg_database d where d.datname = current_database())
  and ((k.classid::bigint << 32) | k.objid::bigint) = seriatim.log_lock($1)
  and a.xact_start < clock_timestamp() - interval '1 second'
