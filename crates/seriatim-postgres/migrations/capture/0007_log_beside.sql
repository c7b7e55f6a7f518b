-- A log's own triggers write to no watched table: a journal of the same partitioned table need not mind them.

-- Whether something may write to the table, or to a partition of it, while a statement on it is not over (as in table_read.sql).
create or replace function seriatim.table_nests(relation oid) returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
    select exists (select 1 from pg_trigger g
                   where (g.tgrelid = relation or g.tgrelid in (select t.relid from pg_partition_tree(relation::regclass) t))
                   and not g.tgisinternal and g.tgenabled <> 'D'
                   and g.tgtype & 1 = 1 and g.tgtype & 2 = 0 and g.tgname !~ '^(!seriatim_|seriatim_log_)')
        or exists (select 1 from pg_constraint k where k.conrelid = relation and k.confrelid = relation and k.contype = 'f'
                   and (k.confdeltype in ('c', 'n', 'd') or k.confupdtype in ('c', 'n', 'd')))
$$;
