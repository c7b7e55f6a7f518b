-- The tables of Seriatim's that PostgreSQL vacuums by itself.
select oid::regclass::text from pg_class
where relnamespace = 'seriatim'::regnamespace and relkind = 'r' and not coalesce(reloptions, '{}') @> '{autovacuum_enabled=false}'
