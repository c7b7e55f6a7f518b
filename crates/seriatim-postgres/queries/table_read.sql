-- What kind of relation it is, its primary key, and what this role may do with it.
select n.nspname::text, c.relname::text, c.relkind::text, c.relpersistence::text, c.relispartition,
    exists (select 1 from pg_inherits i join pg_class p on p.oid = i.inhparent
            where (i.inhrelid = c.oid or i.inhparent = c.oid) and p.relkind = 'r'),
    (select k.conkey from pg_constraint k where k.conrelid = c.oid and k.contype = 'p'),
    has_table_privilege(c.oid, 'select'), has_table_privilege(c.oid, 'trigger'),
    has_schema_privilege(n.oid, 'usage'), current_user::text,
    -- What can write to the table while a statement on it is not over (as in seriatim.table_nests).
    exists (select 1 from pg_trigger g where (g.tgrelid = c.oid or g.tgrelid in (select t.relid from pg_partition_tree(c.oid) t))
            and not g.tgisinternal and g.tgenabled <> 'D'
            and g.tgtype & 1 = 1 and g.tgtype & 2 = 0 and g.tgname !~ '^(!seriatim_|seriatim_log_)')
        or exists (select 1 from pg_constraint k where k.conrelid = c.oid and k.confrelid = c.oid and k.contype = 'f'
                   and (k.confdeltype in ('c', 'n', 'd') or k.confupdtype in ('c', 'n', 'd')))
from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = $1
