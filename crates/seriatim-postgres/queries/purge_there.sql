-- Whether a schema ($1) has Seriatim's versions in it, and whether it has logs.
select exists (select 1 from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = $1 and c.relname = 'version'),
    exists (select 1 from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = $1 and c.relname = 'log')
