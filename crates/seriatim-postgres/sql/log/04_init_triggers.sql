-- Makes the triggers of a log. They note the key of what changed, in the writer's own transaction, and do nothing else.
--
-- Statement-level with transition tables, so that a bulk write is one insert-select; row-level on partitioned tables, where
-- writes to a partition would not be seen otherwise. A trigger must never be the reason that a writer fails: a key column
-- that was renamed is found by its number (slower, until the functions are made anew), and one that is gone is reported.

-- The statement that notes what an event did, with the names that the columns have now. Null when a column is gone. The rows of
-- row-level triggers are what `new_row` and `old_row` say.
-- A row that is written as it was is left alone. A key that changed is a delete of the old one and an insert of the new one.
-- A statement may write a row more than once, by foreign keys' actions or triggers: each key is noted once, in the order of keys,
-- so that two statements do not wait for each other.
-- Joins are full ones: no other is safe from being done row by row for many rows, with a plan that was kept from few.
create or replace function seriatim.log_note(entry seriatim.log, event text, level text, new_row text, old_row text) returns text
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    noted text := 'pg_current_xact_id(), clock_timestamp()';
    template text;
begin
    if (select count(*) from seriatim.log_key(entry)) < cardinality(entry.key_columns) then
        return null;
    end if;
    -- Aliases that no column is called by: a name alone means a column first, then a row.
    template := 'insert into {keys} ([[{c}|, ]], changed, modified_at, deleted) ' || case level || ' ' || event
        when 'STATEMENT insert' then 'select [[d.{c}|, ]], {noted}, false from ('
            'select distinct on ([[n.{w}|, ]]) [[n.{w} as {c}|, ]] from new_rows n order by [[n.{w}|, ]]) d'
        when 'STATEMENT delete' then 'select [[d.{c}|, ]], {noted}, true from ('
            'select distinct on ([[o.{w}|, ]]) [[o.{w} as {c}|, ]] from old_rows o order by [[o.{w}|, ]]) d'
        when 'STATEMENT update' then 'select [[d.{c}|, ]], {noted}, d.seriatim_gone from (' || case when entry.deletes then
            'select distinct on ([[coalesce(seriatim_new.{w}, seriatim_old.{w})|, ]]) '
            '[[coalesce(seriatim_new.{w}, seriatim_old.{w}) as {c}|, ]], [[seriatim_new.{w} is null| or ]] as seriatim_gone '
            'from new_rows seriatim_new full join old_rows seriatim_old on [[seriatim_new.{w} = seriatim_old.{w}| and ]] '
            'where [[seriatim_new.{w} is null| or ]] or [[seriatim_old.{w} is null| or ]] or seriatim_new *<> seriatim_old '
            'order by [[coalesce(seriatim_new.{w}, seriatim_old.{w})|, ]]'
        else
            'select distinct on ([[seriatim_new.{w}|, ]]) [[seriatim_new.{w} as {c}|, ]], false as seriatim_gone '
            'from new_rows seriatim_new full join old_rows seriatim_old on [[seriatim_new.{w} = seriatim_old.{w}| and ]] '
            'where case when [[seriatim_new.{w} is null| or ]] then false when [[seriatim_old.{w} is null| or ]] then true '
            'else seriatim_new *<> seriatim_old end order by [[seriatim_new.{w}|, ]]'
        end || ') d'
        when 'ROW insert' then 'select [[{new}.{w}|, ]], {noted}, false'
        when 'ROW delete' then 'select [[{old}.{w}|, ]], {noted}, true'
        when 'ROW update' then
            'select [[v.{c}|, ]], {noted}, v.seriatim_gone from (values ([[{new}.{w}|, ]], false, {new} *<> {old}), '
            '([[{old}.{w}|, ]], true, ' || entry.deletes || ' and not ([[{new}.{w} = {old}.{w}| and ]]))) '
            'v ([[{c}|, ]], seriatim_gone, seriatim_wanted) where v.seriatim_wanted'
        when 'TRUNCATE' || ' ' || event then 'select [[w.{w}|, ]], {noted}, true from {part} w'
        end || ' on conflict ([[{c}|, ]]) do update '
        'set changed = excluded.changed, modified_at = excluded.modified_at, deleted = excluded.deleted';
    return seriatim.log_sql(entry, template,
        jsonb_build_object('noted', noted, 'new', new_row, 'old', old_row, 'part', event));
end $$;

-- Says for all to see that changes are not noted any more. Writers go on.
create or replace function seriatim.log_break(log int, why text) returns void
language sql set search_path = pg_catalog, pg_temp as $$
    update seriatim.log l set broken = why where l.id = log and l.broken is null
$$;

-- Makes the functions that the triggers call. They run with the rights of their owner, so they note nothing of any other table, whoever
-- puts them there. Those of a plain table nobody else may put anywhere; those of a partitioned one PostgreSQL puts on new partitions
-- itself, and asks whether the role that makes the partition may call them.
create or replace function seriatim.log_make_trigger_functions(entry seriatim.log) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    partitioned boolean := (select c.relkind = 'p' from pg_class c where c.oid = entry.watched);
    level text := case when partitioned then 'ROW' else 'STATEMENT' end;
    head text := '"() returns trigger language plpgsql security definer set search_path = {path}, pg_temp';
    given jsonb;
    event text;
begin
    given := jsonb_build_object('level', level, 'index', entry.key_index::text, 'own',
        case when partitioned then 'pg_partition_root(tg_relid) = ' else 'tg_relid = ' end || quote_literal(entry.watched::oid));
    foreach event in array array['insert', 'update', 'delete'] loop
        perform seriatim.log_make(entry, '_' || event || head, $sql$
            #variable_conflict use_column
            declare
                renamed text;
            begin
                if {own} and [[pg_get_indexdef({index}, {i}, false) = {w quoted}| and ]] then
                    {note};
                    return null;
                end if;
                if seriatim.log_is_foreign({id}, tg_relid) then
                    return null;
                end if;
                select seriatim.log_note(l, '{event}', '{level}', '($1)', '($2)') into renamed from seriatim.log l where l.id = {id};
                if renamed is null then
                    perform seriatim.log_break({id}, 'a column of the key was dropped');
                    return null;
                end if;
                execute renamed {images};
                return null;
            end
        $sql$, given || jsonb_build_object('event', event, 'note', seriatim.log_note(entry, event, level, 'new', 'old'),
            'images', case when not partitioned then '' when event = 'insert' then 'using new, new'
                when event = 'delete' then 'using old, old' else 'using new, old' end));
    end loop;
    -- A transaction that sees a state of before, or not every row, leaves it to the sequencer to find what is gone.
    perform seriatim.log_make(entry, '_truncate' || head, $sql$
        declare
            note text;
        begin
            if not {own} and seriatim.log_is_foreign({id}, tg_relid) then
                return null;
            end if;
            if current_setting('transaction_isolation') in ('repeatable read', 'serializable') or row_security_active(tg_relid) then
                insert into seriatim.log_truncated (log, xid) values ({id}, pg_current_xact_id()) on conflict do nothing;
                return null;
            end if;
            select seriatim.log_note(l, tg_relid::regclass::text, 'TRUNCATE', '', '') into note from seriatim.log l where l.id = {id};
            if note is null then
                perform seriatim.log_break({id}, 'a column of the key was dropped');
            else
                execute note;
            end if;
            return null;
        end
    $sql$, given);
    if not partitioned then
        execute seriatim.log_sql(entry, 'revoke execute on function seriatim."{log}_insert"(), seriatim."{log}_update"(), '
            'seriatim."{log}_delete"(), seriatim."{log}_truncate"() from public');
    end if;
end $$;

-- Takes triggers out, with the functions that they call: that needs no right on the watched table.
create or replace function seriatim.log_drop_triggers(entry seriatim.log, events text[]) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    fun text;
begin
    for fun in select format('seriatim.%I()', entry.name || '_' || e) from unnest(events) e loop
        if to_regprocedure(fun) is not null then
            execute format('drop function %s cascade', fun);
        end if;
    end loop;
end $$;

-- Makes the triggers for inserts and updates.
create or replace function seriatim.log_init_triggers(watched regclass) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    entry seriatim.log := seriatim.log_entry(watched);
    partitioned boolean := (select c.relkind = 'p' from pg_class c where c.oid = watched);
begin
    perform seriatim.log_drop_triggers(entry, array['insert', 'update']);
    perform seriatim.log_make_trigger_functions(entry);
    execute seriatim.log_sql(entry, case when partitioned then $sql$
        create trigger seriatim_log_insert after insert on {watched} for each row execute function seriatim."{log}_insert"();
        create trigger seriatim_log_update after update on {watched} for each row execute function seriatim."{log}_update"();
    $sql$ else $sql$
        create trigger seriatim_log_insert after insert on {watched} referencing new table as new_rows
            for each statement execute function seriatim."{log}_insert"();
        create trigger seriatim_log_update after update on {watched} referencing old table as old_rows new table as new_rows
            for each statement execute function seriatim."{log}_update"();
    $sql$ end);
    perform seriatim.log_note_triggers(entry);
end $$;

-- Makes the triggers for deletes and TRUNCATE, for a log without a foreign key.
create or replace function seriatim.log_init_delete_trigger(watched regclass) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    entry seriatim.log := seriatim.log_entry(watched);
    partitioned boolean := (select c.relkind = 'p' from pg_class c where c.oid = watched);
    part regclass;
begin
    if entry.foreign_key then
        raise exception 'the log of table % has a foreign key, so it forgets a key with its row', watched
            using hint = 'make the log without a foreign key to have deletes noted';
    end if;
    update seriatim.log l set deletes = true where l.id = entry.id returning * into entry;
    perform seriatim.log_drop_triggers(entry, array['delete', 'truncate']);
    perform seriatim.log_make_trigger_functions(entry);
    perform seriatim.log_make_view(entry);
    execute seriatim.log_sql(entry, case when partitioned then $sql$
        create trigger seriatim_log_delete after delete on {watched} for each row execute function seriatim."{log}_delete"();
    $sql$ else $sql$
        create trigger seriatim_log_delete after delete on {watched} referencing old table as old_rows
            for each statement execute function seriatim."{log}_delete"();
    $sql$ end);
    -- TRUNCATE of a partition fires its own trigger only.
    for part in select watched union select relid from pg_partition_tree(watched) loop
        execute seriatim.log_sql(entry, 'create trigger seriatim_log_truncate before truncate on {part} '
            'execute function seriatim."{log}_truncate"()', jsonb_build_object('part', part::text));
    end loop;
    perform seriatim.log_note_triggers(entry);
end $$;

-- By schema and table, as migrations write it.
create or replace function seriatim.log_id_init_triggers(schema_name text, table_name text)
returns void language sql set search_path = pg_catalog, pg_temp as $$
    select seriatim.log_init_triggers(format('%I.%I', schema_name, table_name)::regclass)
$$;

create or replace function seriatim.log_id_init_delete_trigger(schema_name text, table_name text)
returns void language sql set search_path = pg_catalog, pg_temp as $$
    select seriatim.log_init_delete_trigger(format('%I.%I', schema_name, table_name)::regclass)
$$;
