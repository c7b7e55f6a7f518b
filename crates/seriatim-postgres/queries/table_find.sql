-- The relation of this schema and name.
select c.oid from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = $1::text and c.relname = $2::text and c.relkind in ('r', 'p', 'v', 'm', 'f')
