-- The sequencer: who may tick, when, and what a tick notes.

-- The name that a column has now, also for a transaction whose snapshot is older. Looked up every time: for plans that nothing
-- tells to be made anew.
create function seriatim.column_name_now(relation oid, number int2) returns text
language sql stable parallel safe as $$
    select (pg_catalog.pg_identify_object_as_address('pg_catalog.pg_class'::pg_catalog.regclass, relation, number)).object_names[3]
$$;

-- The same, declared immutable so that plans have it as a constant: a plan is made anew when the table's definition changes, and
-- with it this.
create function seriatim.column_name(relation oid, number int2) returns text
language sql immutable parallel safe as $$ select seriatim.column_name_now(relation, number) $$;

-- A value as the text that it has in its row's JSON. The last one is for all other types.
create function seriatim.json_text(int2) returns text language sql immutable parallel safe as 'select $1::pg_catalog.text';
create function seriatim.json_text(int4) returns text language sql immutable parallel safe as 'select $1::pg_catalog.text';
create function seriatim.json_text(int8) returns text language sql immutable parallel safe as 'select $1::pg_catalog.text';
create function seriatim.json_text(uuid) returns text language sql immutable parallel safe as 'select $1::pg_catalog.text';
create function seriatim.json_text(text) returns text language sql immutable parallel safe as 'select $1';
create function seriatim.json_text(varchar) returns text language sql immutable parallel safe as 'select $1::pg_catalog.text';
create function seriatim.json_text(anyelement) returns text
language sql stable parallel safe as $$ select pg_catalog.to_json($1) operator(pg_catalog.#>>) '{}' $$;

-- Refuses to go on in a transaction whose snapshot may be older than the sequencer's lock, or that has written already.
create function seriatim.tick_guard() returns void
language plpgsql set search_path = pg_catalog as $$
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'Seriatim''s sequencer needs isolation level "read committed"';
    end if;
    if pg_current_xact_id_if_assigned() is not null then
        raise exception 'Seriatim''s sequencer needs a transaction of its own, before anything is written in it';
    end if;
    -- A tick must not be forgotten by a crash after somebody acted on it.
    if current_setting('synchronous_commit') = 'off' then
        perform set_config('synchronous_commit', 'local', true);
    end if;
end
$$;

-- Ticks every journal in which something was committed since its last tick. Returns how many, null when another sequencer is
-- at it. Reads all sequences before it writes anything: whoever drew a number up to max_id has an older xid than this one.
create function seriatim.journal_tick() returns bigint
language plpgsql security definer set search_path = pg_catalog as $$
declare
    taken pg_snapshot;
    one record;
    moved bigint[] := '{}';
    max_ids bigint[] := '{}';
    late boolean;
begin
    if not pg_try_advisory_xact_lock(hashtextextended('seriatim.journal_tick', 0)) then
        return null;
    end if;
    perform seriatim.tick_guard();
    taken := pg_current_snapshot();
    for one in
        select c.id, t.snapshot, t.max_id, t.horizon,
            coalesce(pg_sequence_last_value(format('seriatim.journal_%s_id', c.id)::regclass), 0) as newest
        from seriatim.capture c
        cross join lateral (
            select * from seriatim.tick t where t.capture = c.id order by t.n desc limit 1
        ) t
        where c.kind = 'journal'
    loop
        late := false;
        if one.newest <= one.max_id then
            execute format('select seriatim.journal_late(%s, $1, $2, $3, $4)', one.id)
                into late using one.snapshot, one.max_id, one.horizon, taken;
        end if;
        if late or one.newest > one.max_id then
            moved := moved || one.id;
            max_ids := max_ids || greatest(one.newest, one.max_id);
        end if;
    end loop;
    if cardinality(moved) > 0 then
        insert into seriatim.tick (capture, n, snapshot, max_id, horizon, at)
        select m.capture, seriatim.next_tick(m.capture), taken, m.max_id, pg_current_xact_id(), clock_timestamp()
        from unnest(moved, max_ids) as m (capture, max_id);
        perform pg_notify('seriatim_tick', array_to_string(moved, ','));
    end if;
    return cardinality(moved);
end
$$;

-- The number of the next tick. The gaps are random: a database that was restored from a backup and went on from there has
-- other numbers, so a position from before the restore is found out.
create function seriatim.next_tick(which bigint) returns bigint
language sql volatile as $$
    select coalesce(pg_catalog.max(t.n), 0) + 1 + pg_catalog.floor(pg_catalog.random() * 1000000)::bigint
    from seriatim.tick t where t.capture = which
$$;

-- Whether a row that a tick's snapshot did not see, though its number is within, is committed by now.
create function seriatim.journal_late(which bigint, before pg_snapshot, last_id bigint, horizon xid8, taken pg_snapshot)
returns boolean language plpgsql stable set search_path = pg_catalog as $$
declare
    found_one boolean;
begin
    execute format(
        'select exists (select 1 from seriatim.journal_%1$s j where j.xid = any($1) and j.id <= $2)
             or exists (select 1 from seriatim.journal_%1$s j where j.xid >= $3 and j.xid < $4 and j.id <= $2
                        and pg_visible_in_snapshot(j.xid, $5))', which)
    into found_one
    using array(select x from pg_snapshot_xip(before) x where pg_visible_in_snapshot(x, taken)), last_id,
        pg_snapshot_xmax(before), horizon, taken;
    return found_one;
end
$$;

-- One step of everything that is sequenced, for cron and for whoever does not run Seriatim's program.
create function seriatim.tick() returns bigint
language plpgsql set search_path = pg_catalog as $$
declare
    journals bigint := seriatim.journal_tick();
begin
    if to_regprocedure('seriatim.log_tick()') is not null then
        perform seriatim.log_tick();
    end if;
    return journals;
end
$$;

-- Makes a tick of one journal now, whether anything happened or not, and returns its number: where a consumer begins.
-- Waits for the sequencer. Where the caller has written already, no xid is known to be later than all numbers: any may be.
create function seriatim.journal_tick_now(which bigint) returns bigint
language plpgsql security definer set search_path = pg_catalog as $$
declare
    taken pg_snapshot;
    newest bigint;
    number bigint;
    first boolean := pg_current_xact_id_if_assigned() is null;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'Seriatim''s sequencer needs isolation level "read committed"';
    end if;
    perform pg_advisory_xact_lock(hashtextextended('seriatim.journal_tick', 0));
    taken := pg_current_snapshot();
    newest := coalesce(pg_sequence_last_value(format('seriatim.journal_%s_id', which)::regclass), 0);
    insert into seriatim.tick (capture, n, snapshot, max_id, horizon, at)
    values (which, seriatim.next_tick(which), taken, newest,
        case when first then pg_current_xact_id() else '18446744073709551615' end, clock_timestamp())
    returning n into number;
    return number;
end
$$;

-- Whether something may write to the table, or to a partition of it, while a statement on it is not over (as in table_read.sql).
create function seriatim.table_nests(relation oid) returns boolean
language sql stable set search_path = pg_catalog as $$
    select exists (select 1 from pg_trigger g
                   where (g.tgrelid = relation or g.tgrelid in (select t.relid from pg_partition_tree(relation::regclass) t))
                   and not g.tgisinternal and g.tgenabled <> 'D'
                   and g.tgtype & 1 = 1 and g.tgtype & 2 = 0 and g.tgname !~ '^!seriatim_')
        or exists (select 1 from pg_constraint k where k.conrelid = relation and k.confrelid = relation and k.contype = 'f'
                   and (k.confdeltype in ('c', 'n', 'd') or k.confupdtype in ('c', 'n', 'd')))
$$;
