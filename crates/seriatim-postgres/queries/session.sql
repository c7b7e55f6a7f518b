-- The session that answers.
select pg_catalog.pg_backend_pid()
