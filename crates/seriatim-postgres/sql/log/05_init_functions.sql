-- Makes the functions of a log that its consumers and its sequencer call.

create or replace function seriatim.log_init_functions(watched regclass) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    entry seriatim.log := seriatim.log_entry(watched);
    -- No setting of the session that calls decides how a key is written down, or which rows are there.
    settings text := $sql$ set search_path = {path}, pg_temp set extra_float_digits = 1 set intervalstyle = 'iso_8601'
        set lc_monetary = 'C' set row_security = off $sql$;
    plan text := ' set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off ';
    -- What stays of a key's former places: the first that some consumer has not passed. A consumer thus always has a fixed place
    -- of each key before it, however often the key moves on. What somebody has locked is left for the next time.
    place text := $sql$
        with found as materialized (
            select [[k.{c}|, ]], k.changed, k.modified_at, k.deleted from {keys} k
            where k.changed >= lowest and k.changed <= highest and pg_visible_in_snapshot(k.changed, seen) {after}
            order by k.changed, [[k.{c}|, ]] limit most
        ), placed as (
            insert into {places} (modified_seq_id, changed, modified_at, deleted, [[{c}|, ]])
            select nextval('{seq}'::regclass), f.changed, f.modified_at, f.deleted, [[f.{c}|, ]]
            from found f order by f.changed, [[f.{c}|, ]]
        ), former as (
            select p.modified_seq_id, p.pinned, exists (
                select 1 from unnest(positions) c (at)
                where c.at < p.modified_seq_id and not exists (
                    select 1 from {places} q where [[q.{c} = p.{c}| and ]]
                    and q.modified_seq_id > c.at and q.modified_seq_id < p.modified_seq_id)) as needed
            from found f join {places} p on [[p.{c} = f.{c}| and ]]
            for update of p skip locked
        ), unneeded as (
            delete from {places} p using former f where not f.needed and p.modified_seq_id = f.modified_seq_id
        ), kept as (
            update {places} p set pinned = true from former f
            where f.needed and not f.pinned and p.modified_seq_id = f.modified_seq_id
        )
        select count(*), max(f.changed::text::numeric)::text::xid8,
               (select to_jsonb(l) from (select [[z.{c}|, ]] from found z order by z.changed desc, [[z.{c} desc|, ]] limit 1) l)
        into given, last_xid, last_key from found f
    $sql$;
begin
    -- Gives numbers to what these transactions changed, as far as `seen` sees them.
    perform seriatim.log_make(entry, '_place"(lowest xid8, highest xid8, seen pg_snapshot, after_key jsonb, positions bigint[], most int, '
        'out given bigint, out last_xid xid8, out last_key jsonb) language plpgsql' || settings || plan, $sql$
        #variable_conflict use_column
        declare
            a {keys};
        begin
            if after_key is null then
                {place};
            else
                a := jsonb_populate_record(null::{keys}, after_key);
                {place after};
            end if;
        end
    $sql$, jsonb_build_object('place', seriatim.log_sql(entry, place, '{"after": ""}'), 'place after',
        seriatim.log_sql(entry, place, jsonb_build_object('after',
            seriatim.log_sql(entry, 'and ([[k.{c}|, ]]) > ([[a.{c}|, ]])')))));

    perform seriatim.log_make(entry, '_update_seq"(batch_size int default 10000) returns bigint language sql '
        'set search_path = pg_catalog, pg_temp', 'select seriatim.log_sequence({id}, batch_size)');

    -- How many keys are committed and have no number yet, as far as it is worth counting.
    perform seriatim.log_make(entry, '_unsequenced"(most int) returns bigint language plpgsql stable'
        || settings || 'set enable_seqscan = off', $sql$
        #variable_conflict use_column
        declare
            pass seriatim.log_pass;
            waiting bigint;
        begin
            select * into strict pass from seriatim.log_pass p where p.log = {id} order by p.n desc limit 1;
            select (select count(*) from (select 1 from {keys} k where k.changed >= pass.floor limit most) c)
                 + (select count(*) from (select 1 from {keys} k where k.changed = any(pass.late) limit most) c)
                 + (select count(*) from (select 1 from seriatim.log_partial t join {keys} k on k.changed = t.xid
                        where t.log = {id} and ([[k.{c}|, ]]) >
                            (select [[a.{c}|, ]] from jsonb_populate_record(null::{keys}, t.after) a) limit most) c)
                 + (select count(*) from seriatim.log_truncated t where t.log = {id})
            into waiting;
            return waiting;
        end
    $sql$);

    perform seriatim.log_make(entry, '_lag"(last_seq_id bigint) returns bigint language sql stable '
        'set search_path = pg_catalog, pg_temp', $sql$
        select (select count(*) from {view} v where v.modified_seq_id > last_seq_id)
             + seriatim."{log}_unsequenced"(2147483647)
    $sql$);

    perform seriatim.log_make(entry, '_batch"(last_seq_id bigint, batch_size int) returns setof {view} language sql stable '
        'set search_path = pg_catalog, pg_temp', $sql$
        select * from {view} v where v.modified_seq_id > last_seq_id order by v.modified_seq_id limit batch_size
    $sql$);

    perform seriatim.log_make(entry, '_list"(most int default 1000) returns bigint language plpgsql' || settings || plan, $sql$
        #variable_conflict use_column
        declare
            a {keys};
            entry seriatim.log;
            read bigint;
            last_key jsonb;
        begin
            if not pg_try_advisory_xact_lock(seriatim.log_lock({id})) then
                return null;
            end if;
            select * into strict entry from seriatim.log l where l.id = {id};
            if entry.listing <> 'running' then
                return 0;
            end if;
            a := jsonb_populate_record(null::{keys}, entry.listing_after);
            with chunk as materialized (
                select [[w.{w} as {c}|, ]] from {watched} w
                where entry.listing_after is null or ([[w.{w}|, ]]) > ([[a.{c}|, ]])
                order by [[w.{w}|, ]] limit most
            ), placed as (
                insert into {places} (modified_seq_id, changed, modified_at, listed, [[{c}|, ]])
                select nextval('{seq}'::regclass), '0'::xid8, clock_timestamp(), true, [[c.{c}|, ]] from chunk c
                where not exists (select 1 from {places} p where [[p.{c} = c.{c}| and ]])
                order by [[c.{c}|, ]]
            )
            select count(*), (select to_jsonb(l) from (select [[z.{c}|, ]] from chunk z order by [[z.{c} desc|, ]] limit 1) l)
            into read, last_key from chunk;
            update seriatim.log l set
                listing = case when read < most then 'done' else 'running' end,
                listing_after = coalesce(last_key, l.listing_after),
                listed = l.listed + read,
                listed_upto = (select last_value from {seq})
            where l.id = {id};
            return read;
        end
    $sql$);
    perform seriatim.log_make_vanished(entry, settings || plan);
    perform seriatim.log_make_prune_functions(entry);
    update seriatim.log l set made_for = seriatim.log_shape(entry),
        key_now = (select array_agg(k.plain_now order by k.place) from seriatim.log_key(entry) k)
    where l.id = entry.id;
end $$;

-- Makes the function that looks through places after a number for keys whose rows are gone although no delete is noted, and gives those
-- a place as deleted. It returns how many, and how far it looked: null when those were all places. A key that a writer holds ends it
-- with an error.
create or replace function seriatim.log_make_vanished(entry seriatim.log, settings text) returns void
language sql set search_path = pg_catalog, pg_temp as $$
    select seriatim.log_make(entry, '_vanished"(after bigint, most int, out given bigint, out upto bigint) language plpgsql'
        || settings || 'set lock_timeout = 50', $sql$
        #variable_conflict use_column
        declare
            looked bigint;
        begin
            with page as materialized (
                select p.modified_seq_id, [[p.{c}|, ]] from {places} p where p.modified_seq_id > after
                order by p.modified_seq_id limit most
            ), gone as materialized (
                select distinct on ([[p.{c}|, ]]) [[p.{c}|, ]], k.changed from page p
                left join {keys} k on [[k.{c} = p.{c}| and ]]
                where k.deleted is not true and not exists (select 1 from {watched} w where [[w.{w} = p.{c}| and ]])
            ), known as (
                update {keys} k set deleted = true, modified_at = clock_timestamp() from gone g
                where [[k.{c} = g.{c}| and ]] and k.changed = g.changed
                returning k.changed, [[k.{c}|, ]]
            ), unknown as (
                insert into {keys} (changed, modified_at, deleted, [[{c}|, ]])
                select '0'::xid8, clock_timestamp(), true, [[g.{c}|, ]] from gone g where g.changed is null
                on conflict do nothing
                returning changed, [[{c}|, ]]
            ), placed as (
                insert into {places} (modified_seq_id, changed, modified_at, deleted, [[{c}|, ]])
                select nextval('{seq}'::regclass), n.changed, clock_timestamp(), true, [[n.{c}|, ]]
                from (select * from known union all select * from unknown) n
                returning 1
            )
            select (select count(*) from placed), count(*), max(page.modified_seq_id) into given, looked, upto from page;
            if looked < most then
                upto := null;
            end if;
        end
    $sql$)
$$;

-- The names that the functions of a log were made with, and the number of the form that they have.
create or replace function seriatim.log_shape(entry seriatim.log) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
    select '3 ' || entry.watched::text || ' (' || string_agg(k.now, ', ' order by k.place) || ') ' || entry.key_index
    from seriatim.log_key(entry) k
$$;

-- Makes the functions of a log anew when its table, its key's columns or their index got another name since.
create or replace function seriatim.log_freshen(entry seriatim.log) returns seriatim.log
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    index_now oid;
begin
    if entry.watched_oid <> entry.watched::oid then
        raise exception 'the log of table % was restored from a dump, where transactions had other numbers', entry.watched
            using hint = format('select seriatim.log_repair(%L)', entry.watched);
    end if;
    if (select count(*) from seriatim.log_key(entry)) < cardinality(entry.key_columns) then
        perform seriatim.log_break(entry.id, 'the table, or a column of its key, was dropped');
        raise exception 'the log of % is broken: its table, or a column of its key, was dropped', entry.name
            using hint = format('select seriatim.log_drop(%s), then make it anew', entry.watched::oid);
    end if;
    select seriatim.log_key_index(entry.watched, array_agg(a.attname::text)) into index_now
    from pg_attribute a where a.attrelid = entry.watched and a.attnum = any(entry.key_attnums);
    if index_now is not null and index_now <> entry.key_index then
        update seriatim.log l set key_index = index_now where l.id = entry.id returning * into entry;
    end if;
    if entry.made_for is distinct from seriatim.log_shape(entry) then
        perform seriatim.log_make_trigger_functions(entry);
        perform seriatim.log_init_functions(entry.watched);
        select * into strict entry from seriatim.log l where l.id = entry.id;
    end if;
    return entry;
end $$;

create or replace function seriatim.log_id_init_functions(schema_name text, table_name text)
returns void language sql set search_path = pg_catalog, pg_temp as $$
    select seriatim.log_init_functions(format('%I.%I', schema_name, table_name)::regclass)
$$;

-- All of it at once. `deletes` needs a log without a foreign key. Returns the log's name.
create or replace function seriatim.log_init(watched regclass, foreign_key boolean default false, deletes boolean default true,
    key text[] default null) returns text
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    name text := seriatim.log_init_tables(watched, foreign_key, key);
begin
    perform seriatim.log_init_functions(watched);
    perform seriatim.log_init_triggers(watched);
    if deletes and not foreign_key then
        perform seriatim.log_init_delete_trigger(watched);
    end if;
    return name;
end $$;
