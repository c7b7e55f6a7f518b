-- Which tables have their changes noted row by row, and the turn of the ring for all functions of a journal.

-- Whether something may write to the table, or to a partition of it, while a statement on it is not over, or several times to one
-- row of it in one statement (as in table_read.sql): triggers of users, actions of foreign keys, keys that are checked late.
create or replace function seriatim.table_nests(relation oid) returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
    select exists (select 1 from pg_trigger g
                   where (g.tgrelid = relation or g.tgrelid in (select t.relid from pg_partition_tree(relation::regclass) t))
                   and not g.tgisinternal and g.tgenabled <> 'D' and g.tgtype & 28 <> 0 and g.tgname !~ '^(!seriatim_|seriatim_log_)')
        or exists (select 1 from pg_constraint k where k.conrelid = relation and k.contype = 'f'
                   and (k.confdeltype in ('c', 'n', 'd') or k.confupdtype in ('c', 'n', 'd')))
        or exists (select 1 from pg_index i where i.indrelid = relation and i.indisunique and not i.indimmediate)
$$;

-- Lets triggers write to the next table of the ring, if that is empty.
create or replace function seriatim.journal_turn(which bigint, current int2) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    following int2 := (current + 1) % 3;
    occupied boolean;
    definition text;
begin
    execute format('select exists (select 1 from seriatim.journal_%s_%s)', which, following) into occupied;
    if occupied then
        return;
    end if;
    for definition in
        select pg_get_functiondef(p.oid) from pg_proc p
        where p.pronamespace = (select c.relnamespace from pg_class c where c.oid = 'seriatim.capture'::regclass)
            and p.proname ~ format('^journal_%s_[a-z]+$', which)
    loop
        execute replace(definition, format('journal_%s_%s ', which, current), format('journal_%s_%s ', which, following));
    end loop;
    update seriatim.capture c set ring = following where c.id = which;
end
$$;
