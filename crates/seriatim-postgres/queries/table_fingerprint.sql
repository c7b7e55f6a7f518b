-- What a table, its partitions, its columns and its triggers look like, in short. A trigger that was disabled for a while is another.
select md5(concat_ws('|',
    (select format('%s.%s:%s', c.relnamespace, c.relname, c.relpersistence) from pg_class c where c.oid = $1),
    (select string_agg(format('%s:%s:%s:%s', a.attnum, a.attname, a.atttypid, a.attisdropped), ',' order by a.attnum)
     from pg_attribute a where a.attrelid = $1 and a.attnum > 0),
    (select string_agg(format('%s:%s:%s:%s', g.oid, g.tgname, g.tgenabled, g.xmin), ',' order by g.oid) from pg_trigger g
     where g.tgrelid = $1 or g.tgrelid in (select t.relid from pg_partition_tree($1::oid) t)),
    (select string_agg(format('%s:%s', t.relid::oid, c.relpersistence), ',' order by t.relid::oid)
     from pg_partition_tree($1::oid) t join pg_class c on c.oid = t.relid),
    (select string_agg(i.indexrelid::text, ',' order by i.indexrelid) from pg_index i where i.indrelid = $1 and not i.indimmediate),
    (select string_agg(k.oid::text, ',' order by k.oid) from pg_constraint k where k.conrelid = $1)))
