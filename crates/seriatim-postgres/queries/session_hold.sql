-- The session that answers, kept for as long as the transaction lasts.
begin;
select pg_catalog.pg_backend_pid()
