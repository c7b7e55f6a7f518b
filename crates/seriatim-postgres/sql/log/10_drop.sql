-- Takes a log out, says what is wrong with one, and mends it.

-- Drops everything that belongs to a log. The table may be gone already: give its number then.
create or replace function seriatim.log_drop(watched oid) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    entry seriatim.log;
    fun regprocedure;
begin
    select * into entry from seriatim.log l where l.watched::oid = log_drop.watched;
    if not found then
        return;
    end if;
    if to_regclass(format('seriatim.%I', entry.name || '_seq')) is not null then
        perform seriatim.log_note_number(pg_sequence_last_value(format('seriatim.%I', entry.name || '_seq')::regclass));
    end if;
    -- The triggers go with the functions that they call.
    for fun in select p.oid::regprocedure from pg_proc p
        where p.pronamespace = (select c.relnamespace from pg_class c where c.oid = 'seriatim.log'::regclass)
          and p.proname in (select entry.name || s from unnest(array['_insert', '_update', '_delete', '_truncate', '_place',
              '_update_seq', '_unsequenced', '_lag', '_batch', '_list', '_vanished', '_forget_deleted', '_sweep']) s) loop
        execute format('drop function %s cascade', fun);
    end loop;
    execute format('drop view if exists seriatim.%1$I;
        drop table if exists seriatim.%2$I, seriatim.%3$I; drop sequence if exists seriatim.%4$I',
        entry.name, entry.name || '_keys', entry.name || '_places', entry.name || '_seq');
    delete from seriatim.log_pass p where p.log = entry.id;
    delete from seriatim.log_partial p where p.log = entry.id;
    delete from seriatim.log_truncated t where t.log = entry.id;
    delete from seriatim.log l where l.id = entry.id;
end $$;

-- What is wrong with a log, one sentence each. None when all is well.
create or replace function seriatim.log_problems(watched regclass) returns setof text
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
    return query select * from seriatim.log_faults(watched);
    return query select format('TRUNCATE of partition %s is not noted: it has no trigger seriatim_log_truncate', p)
        from seriatim.log_unguarded(watched) p;
end $$;

-- The same, without that about partitions that are new (see log_init_partitions).
create or replace function seriatim.log_faults(watched regclass) returns setof text
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    entry seriatim.log := seriatim.log_entry(watched);
begin
    return query select format('changes of table %s are not noted any more: %s', watched, entry.broken)
        where entry.broken is not null;
    return query select format('the log of table %s was restored from a dump, where transactions had other numbers', watched)
        where entry.watched_oid <> watched;
    return query select format('row level security of table %s may hide rows from the role %I, which reads them', watched, current_user)
        where row_security_active(watched);
    return query select format('others may make operators in schema %s, by which the key of table %s is compared', s.name, watched)
        from seriatim.log_open_schema(entry) s (name) where s.name is not null;
    return query
        select format('trigger seriatim_log_%s of table %s is missing or disabled', e.event, watched)
        from unnest(array['insert', 'update'] || case when entry.deletes then array['delete', 'truncate'] else '{}' end) e (event)
        where not exists (select 1 from pg_trigger t
            where t.tgrelid = watched and t.tgname = 'seriatim_log_' || e.event and t.tgenabled in ('O', 'A'));
    return query
        select format('trigger %s of table %s was changed since it was made: it may have been disabled for a while',
                      t.tgname, t.tgrelid::regclass)
        from seriatim.log_triggers(entry) now (made), jsonb_each_text(now.made) n
        join jsonb_each_text(entry.made) m on m.key = n.key and m.value <> n.value
        join pg_trigger t on t.oid::text = n.key
        where now.made -> 'major' = entry.made -> 'major';
    return query
        select format('trigger %s of partition %s is disabled', t.tgname, t.tgrelid::regclass)
        from pg_partition_tree(watched) p join pg_trigger t on t.tgrelid = p.relid
        where p.relid <> watched and starts_with(t.tgname::text, 'seriatim_log_') and t.tgenabled not in ('O', 'A');
end $$;

-- Puts the triggers of a log back. What happened without them is not known, so that only reading everything again helps:
-- positions before the number that this returns say nothing any more, and all rows are listed anew.
create or replace function seriatim.log_repair(watched regclass) returns bigint
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    entry seriatim.log := seriatim.log_entry(watched);
    head bigint;
    attnums int2[];
begin
    perform pg_advisory_xact_lock(seriatim.log_lock(entry.id));
    if entry.watched_oid <> watched then
        -- Restored from a dump: columns may have other numbers now, and so have transactions.
        select array_agg(a.attnum order by k.place) into attnums
        from unnest(coalesce(entry.key_now, entry.key_columns)) with ordinality k (name, place)
        join pg_attribute a on a.attrelid = log_repair.watched and a.attname = k.name and not a.attisdropped;
        if coalesce(cardinality(attnums), 0) < cardinality(entry.key_columns) then
            raise exception 'a column of the key of table % has another name since the dump', watched
                using hint = format('select seriatim.log_drop(%s), then make it anew', watched::oid);
        end if;
        update seriatim.log l set watched_oid = log_repair.watched, key_attnums = attnums where l.id = entry.id
        returning * into entry;
        delete from seriatim.log_partial p where p.log = entry.id;
        delete from seriatim.log_truncated t where t.log = entry.id;
        update seriatim.log_pass p set floor = pg_snapshot_xmin(pg_current_snapshot()), late = '{}' where p.log = entry.id;
        execute seriatim.log_sql(entry, $sql$ update {keys} set changed = '0'; update {places} set changed = '0' $sql$);
    end if;
    update seriatim.log l set broken = null, made_for = null where l.id = entry.id returning * into entry;
    entry := seriatim.log_freshen(entry);
    perform seriatim.log_make_view(entry);
    perform seriatim.log_init_triggers(watched);
    if entry.deletes then
        perform seriatim.log_init_delete_trigger(watched);
    end if;
    update seriatim.log l set made = seriatim.log_triggers(l) where l.id = entry.id;
    -- A number that nobody can have reached before.
    head := nextval(format('seriatim.%I', entry.name || '_seq')::regclass);
    update seriatim.log l set repairs = l.repairs + 1, repaired = head,
        listing = case when l.listing = 'no' then 'no' else 'running' end, listing_after = null, listed = 0
    where l.id = entry.id;
    return head;
end $$;
