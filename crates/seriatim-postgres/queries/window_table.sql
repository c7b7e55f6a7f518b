-- A relation, whether this role may read it, the columns of its primary key in their order, and what its columns look like, in
-- short (as in window_begin.sql).
select n.nspname::text, c.relname::text, has_schema_privilege(n.oid, 'usage'), has_table_privilege(c.oid, 'select'), current_user::text,
    array(select a.attname::text from pg_constraint k, unnest(k.conkey) with ordinality as u (number, at), pg_attribute a
          where k.conrelid = c.oid and k.contype = 'p' and a.attrelid = c.oid and a.attnum = u.number order by u.at),
    (select md5(string_agg(format('%s:%s:%s:%s', a.attnum, a.attname, a.atttypid, a.atttypmod), ',' order by a.attnum))
     from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped)
from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = $1
