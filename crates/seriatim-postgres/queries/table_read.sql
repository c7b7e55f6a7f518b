-- What kind of relation it is, its primary key, and what this role may do with it.
select n.nspname::text, c.relname::text, c.relkind::text, c.relpersistence::text, c.relispartition,
    exists (select 1 from pg_inherits i join pg_class p on p.oid = i.inhparent
            where (i.inhrelid = c.oid or i.inhparent = c.oid) and p.relkind = 'r'),
    (select k.conkey from pg_constraint k where k.conrelid = c.oid and k.contype = 'p'),
    has_table_privilege(c.oid, 'select'), has_table_privilege(c.oid, 'trigger'),
    has_schema_privilege(n.oid, 'usage'), current_user::text,
    -- What can write to the table while a statement on it is not over, or twice to one row (as in seriatim.table_nests).
    exists (select 1 from pg_trigger g where (g.tgrelid = c.oid or g.tgrelid in (select t.relid from pg_partition_tree(c.oid) t))
            and not g.tgisinternal and g.tgenabled <> 'D' and g.tgtype & 28 <> 0 and g.tgname !~ '^(!seriatim_|seriatim_log_)')
        or exists (select 1 from pg_constraint k where k.conrelid = c.oid and k.contype = 'f'
                   and (k.confdeltype in ('c', 'n', 'd') or k.confupdtype in ('c', 'n', 'd')))
        or exists (select 1 from pg_index i where i.indrelid = c.oid and i.indisunique and not i.indimmediate),
    exists (select 1 from pg_index i where i.indrelid = c.oid and i.indisunique and not i.indimmediate),
    -- Its partitions that have rows, by number and by name; the name of one that a crash would empty, of one that is elsewhere, and of
    -- one that this role may not read or put a trigger on.
    array(select p.relid::oid from pg_partition_tree(c.oid) p where p.isleaf order by p.relid::oid),
    array(select format('%I.%I', m.nspname, o.relname) from pg_partition_tree(c.oid) p join pg_class o on o.oid = p.relid
          join pg_namespace m on m.oid = o.relnamespace where p.isleaf order by p.relid::oid),
    (select min(p.relid::text) from pg_partition_tree(c.oid) p join pg_class o on o.oid = p.relid where o.relpersistence = 'u'),
    (select min(p.relid::text) from pg_partition_tree(c.oid) p join pg_class o on o.oid = p.relid where o.relkind = 'f'),
    (select min(p.relid::text) from pg_partition_tree(c.oid) p where p.isleaf
        and not (has_table_privilege(p.relid, 'select') and has_table_privilege(p.relid, 'trigger')))
from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = $1
