-- Makes the tables of a log. `log_id_<table>` is the view that consumers read; nothing else is meant for them.
--
--   <log>_keys     one row for each key that changed, written by the triggers in the writer's transaction
--   <log>_places   where keys stand: a number and a key, written by whoever gives numbers, and by nobody else
--   <log>          the places, for readers

-- A log of this table, or of the columns given. With a foreign key a deleted row's key goes with it; without one deletes
-- can be noted (see log_id_init_delete_trigger).
create or replace function seriatim.log_init_tables(watched regclass, foreign_key boolean, key text[] default null)
returns text
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    entry seriatim.log;
    index_oid oid := seriatim.log_key_index(watched, key);
    table_name text := (select c.relname from pg_class c where c.oid = watched);
    last_number bigint := seriatim.log_last_number();
    reserved text[] := array['modified_seq_id', 'modified_at', 'deleted', 'listed', 'changed', 'pinned'];
begin
    select * into entry from seriatim.log l where l.watched = log_init_tables.watched;
    if found then
        if key is not null and not (key <@ entry.key_columns and entry.key_columns <@ key) then
            raise exception 'table % has a log already, by (%)', watched, array_to_string(entry.key_columns, ', ')
                using hint = 'use that key, or drop the log first: select seriatim.log_drop(…)';
        end if;
        return entry.name;
    end if;
    perform seriatim.log_refuse(watched);
    if index_oid is null then
        raise exception 'table % has no % that names one row', watched,
                coalesce(format('unique, not null, immediate key over (%s)', array_to_string(key, ', ')), 'primary key')
            using hint = 'give it a primary key, or name columns that have a unique constraint and are not null';
    end if;
    insert into seriatim.log (watched, watched_oid, name, key_columns, key_attnums, key_index, foreign_key)
    select watched, watched, seriatim.log_name(watched), array_agg(a.attname::text order by x.place),
           array_agg(a.attnum order by x.place), index_oid, log_init_tables.foreign_key
    from pg_index i, unnest((i.indkey::int2[])[0:i.indnkeyatts - 1]) with ordinality x (attnum, place)
    join pg_attribute a on a.attrelid = watched and a.attnum = x.attnum
    where i.indexrelid = index_oid
    returning * into entry;
    if entry.key_columns && reserved then
        raise exception 'the key of table % has a column called %', watched,
                (select c from unnest(entry.key_columns) c where c = any(reserved) limit 1)
            using hint = 'the log has a column of that name itself: use another unique key';
    end if;
    perform seriatim.log_refuse_key(entry);
    execute seriatim.log_sql(entry, $sql$
        create sequence {seq} as bigint;
        create table {keys} (
            [[{c} {type} not null|, ]],
            changed     xid8        not null,
            modified_at timestamptz not null,
            deleted     boolean     not null,
            primary key ([[{c}|, ]])
        ) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
                autovacuum_vacuum_insert_scale_factor = 0.2, autovacuum_vacuum_cost_delay = 0);
        create index on {keys} (changed, [[{c}|, ]]);
        create table {places} (
            modified_seq_id bigint      primary key,
            changed         xid8        not null,
            modified_at     timestamptz not null,
            deleted         boolean     not null default false,
            listed          boolean     not null default false,
            pinned          boolean     not null default false,
            [[{c} {type} not null|, ]]
        ) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
                autovacuum_vacuum_insert_scale_factor = 0.2, autovacuum_vacuum_cost_delay = 0);
        create index on {places} ([[{c}|, ]], modified_seq_id);
        create index on {places} (modified_seq_id) where pinned;
        create index on {places} (modified_seq_id) where deleted;
    $sql$);
    if foreign_key then
        execute seriatim.log_sql(entry, $sql$
            alter table {keys} add foreign key ([[{c}|, ]]) references {watched} ([[{w}|, ]])
                on delete cascade on update cascade
        $sql$);
    end if;
    perform seriatim.log_make_view(entry);
    if last_number > 0 then
        -- Positions of a log that is gone say nothing about this one.
        update seriatim.log l set repairs = floor(random() * 1000000000)::int + 1,
            repaired = setval(format('seriatim.%I', entry.name || '_seq')::regclass, last_number + 1)
        where l.id = entry.id;
    end if;
    insert into seriatim.log_pass (log, n, floor, late)
    select entry.id, 0, pg_snapshot_xmin(pg_current_snapshot()), '{}';
    return entry.name;
end $$;

-- What a log is called: after its table, and after its number where that is taken, too long or too odd.
create or replace function seriatim.log_name(watched regclass) returns text
language sql set search_path = pg_catalog, pg_temp as $$
    select case when octet_length(c.relname) <= 40 and c.relname ~ '^[A-Za-z0-9_]+$'
                 and not exists (select 1 from seriatim.log l where l.name = 'log_id_' || c.relname)
                 and to_regclass(format('seriatim.%I', 'log_id_' || c.relname)) is null
           then 'log_id_' || c.relname else 'log_id_' || c.oid end
    from pg_class c where c.oid = watched
$$;

-- What readers see. It uses the columns of the key, so that nobody changes their type or drops them unawares.
create or replace function seriatim.log_make_view(entry seriatim.log) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    execute seriatim.log_sql(entry, case when entry.deletes then $sql$
        create or replace view {view} as
        select [[p.{c}|, ]], p.modified_seq_id, p.modified_at, p.listed,
               not exists (select 1 from {watched} w where [[w.{w} = p.{c}| and ]]) as deleted
        from {places} p
    $sql$ else $sql$
        create or replace view {view} as
        select [[p.{c}|, ]], p.modified_seq_id, p.modified_at, p.listed, false as deleted
        from {places} p
        where exists (select 1 from {watched} w where [[w.{w} = p.{c}| and ]])
    $sql$ end);
end $$;

-- By schema and table, as migrations write it.
create or replace function seriatim.log_id_init_tables_with_option_fk(schema_name text, table_name text, foreign_key boolean)
returns void language sql set search_path = pg_catalog, pg_temp as $$
    select seriatim.log_init_tables(format('%I.%I', schema_name, table_name)::regclass, foreign_key)
$$;

-- With a foreign key.
create or replace function seriatim.log_id_init_tables(schema_name text, table_name text)
returns void language sql set search_path = pg_catalog, pg_temp as $$
    select seriatim.log_init_tables(format('%I.%I', schema_name, table_name)::regclass, true)
$$;
