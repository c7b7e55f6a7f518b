-- What a table, its columns and its triggers look like, in short.
select md5(concat_ws('|',
    (select format('%s.%s', c.relnamespace, c.relname) from pg_class c where c.oid = $1),
    (select string_agg(format('%s:%s:%s:%s', a.attnum, a.attname, a.atttypid, a.attisdropped), ',' order by a.attnum)
     from pg_attribute a where a.attrelid = $1 and a.attnum > 0),
    (select string_agg(format('%s:%s:%s', g.oid, g.tgname, g.tgenabled), ',' order by g.oid) from pg_trigger g where g.tgrelid = $1),
    (select string_agg(k.oid::text, ',' order by k.oid) from pg_constraint k where k.conrelid = $1)))
