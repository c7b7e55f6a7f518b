-- Ends a session of this role's.
select pg_terminate_backend(a.pid) from pg_stat_activity a where a.pid = $1 and a.datname = current_database()
