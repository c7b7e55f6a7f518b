-- The table that the changes of the one journal are in.
select c.oid::regclass::text from pg_class c
where c.relnamespace = 'seriatim'::regnamespace and c.relname like 'journal\_%\_0' and c.relkind = 'r'
