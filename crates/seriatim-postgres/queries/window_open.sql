-- The present, taken before anything is looked at; whether this session can see all transactions; and those that are open.
select now(), pg_is_in_recovery(), pg_has_role('pg_read_all_stats', 'usage'), current_user::text,
    a.pid, a.usename::text, a.application_name, a.state, a.xact_start, a.query_start
from (values (1)) one (row)
left join pg_stat_activity a on a.datid = (select d.oid from pg_database d where d.datname = current_database())
    and a.pid <> pg_backend_pid() and a.backend_type <> 'autovacuum worker'
    and (a.xact_start is not null or a.state = 'disabled')
