-- Open transactions that have written to a journal's tables for longer than a second, and prepared ones.
select format('transaction of %s (pid %s, user %s) is open for %s, state %s, its last statement began at %s',
        coalesce(nullif(a.application_name, ''), 'an unnamed application'), a.pid, a.usename,
        date_trunc('second', clock_timestamp() - a.xact_start), a.state, a.query_start),
    format('its changes cannot be seen before it commits: end it, or `select pg_terminate_backend(%s)`', a.pid)
from pg_stat_activity a
where a.xact_start < clock_timestamp() - interval '1 second' and a.pid <> pg_backend_pid()
    and exists (select 1 from pg_locks l join pg_class c on c.oid = l.relation join pg_namespace n on n.oid = c.relnamespace
                where l.pid = a.pid and l.mode = 'RowExclusiveLock' and l.granted
                    and n.nspname = $1 and starts_with(c.relname::text, $2)
                    and l.database = (select d.oid from pg_database d where d.datname = current_database()))
union all
select format('prepared transaction %s (user %s) waits since %s', p.gid, p.owner, p.prepared),
    format('its changes cannot be seen before it commits: `commit prepared %L` or `rollback prepared %L`', p.gid, p.gid)
from pg_prepared_xacts p
where p.database = current_database() and p.prepared < clock_timestamp() - interval '1 second'
    and exists (select 1 from pg_locks l join pg_class c on c.oid = l.relation join pg_namespace n on n.oid = c.relnamespace
                where l.pid is null and l.mode = 'RowExclusiveLock' and n.nspname = $1 and starts_with(c.relname::text, $2))
