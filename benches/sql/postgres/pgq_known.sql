-- Whether PgQ is installed beside the server.
select exists (select 1 from pg_available_extensions where name = 'pgq')
