-- A journal's sequence that somebody sets back (setval, restart): it goes on above the ids that were given, and readers find the changes that
-- got lower ones in between (journal_batch.sql).

-- Lets a journal's ids go on from this one, which no tick has had. Others see that at once, so until the tick with this id is committed they
-- know that there is more to come.
create function seriatim.journal_set_forward(which bigint, id bigint) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    raise warning 'the sequence of journal % was set back: it goes on from %', which, id;
    perform setval(format('seriatim.journal_%s_id', which)::regclass, id);
end
$$;

-- The newest tick of each journal, and whether something was committed that it did not see, or its sequence was set back. With `of_one`, of that one.
--
-- `checked` is the snapshot of an earlier call that found nothing new in `captures` while their newest ticks were `ticks`: what was
-- committed by then is not looked for again. With `settled`, it left nothing to be ticked: when nothing was committed since, nothing is
-- looked for at all, and no array comes back. Reads sequences after its snapshot is taken: a change that is committed by then has its number in them.
create or replace function seriatim.journal_moved(of_one bigint, checked pg_snapshot, captures bigint[], ticks bigint[], settled boolean,
    out seen pg_snapshot, out journals bigint[], out newest bigint[], out moved boolean[])
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform seriatim.refuse_stranger();
    seen := pg_current_snapshot();
    if settled and seen::text = checked::text then
        return;
    end if;
    select array_agg(j.capture), array_agg(j.n), array_agg(j.is_moved) into journals, newest, moved
    from (
        select c.id as capture, t.n,
            coalesce(pg_sequence_last_value(format('seriatim.journal_%s_id', c.id)::regclass), 0) <> t.max_id
            -- A tick that does not know how late a change may be gives way to one that does.
            or t.horizon = '18446744073709551615'::xid8
            or case when pg_snapshot_xmin(coalesce(k.checked, t.snapshot)) >= t.horizon then false
                    when seriatim.ended_between(t.snapshot, t.horizon, coalesce(k.checked, t.snapshot), seen)
                    then seriatim.journal_late(c.id, t.snapshot, t.max_id, t.horizon, seen) else false end as is_moved
        from seriatim.capture c
        cross join lateral (
            select * from seriatim.tick t where t.capture = c.id order by t.n desc limit 1
        ) t
        left join lateral (
            select journal_moved.checked from unnest(captures, ticks) u (capture, n) where u.capture = c.id and u.n = t.n
        ) k on true
        where c.kind = 'journal' and (of_one is null or c.id = of_one)
    ) j;
end
$$;

-- Ticks those of these journals in which something was committed since their last tick. Returns how many, null when another
-- sequencer is at it. Reads all sequences before it writes anything: whoever drew a number up to max_id has an older xid than this one.
create or replace function seriatim.journal_tick(which bigint[]) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    taken pg_snapshot;
    one record;
    moved bigint[] := '{}';
    max_ids bigint[] := '{}';
    set_back bigint[] := '{}';
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
        where c.kind = 'journal' and c.id = any (which)
    loop
        if one.newest < one.max_id then
            set_back := set_back || one.id;
        end if;
        late := one.horizon = '18446744073709551615'::xid8;
        if not late and one.newest <= one.max_id then
            late := seriatim.journal_late(one.id, one.snapshot, one.max_id, one.horizon, taken);
        end if;
        if late or one.newest <> one.max_id then
            moved := moved || one.id;
            max_ids := max_ids || case when one.newest < one.max_id then one.max_id + 1 else one.newest end;
        end if;
    end loop;
    -- Not before all sequences are read: that gives this transaction its number.
    perform seriatim.journal_set_forward(m.capture, m.max_id)
    from unnest(moved, max_ids) as m (capture, max_id) where m.capture = any (set_back);
    if cardinality(moved) > 0 then
        insert into seriatim.tick (capture, n, snapshot, max_id, horizon, at)
        select m.capture, seriatim.next_tick(m.capture), taken, m.max_id, pg_current_xact_id(), clock_timestamp()
        from unnest(moved, max_ids) as m (capture, max_id);
        -- Names the journals, so that only their readers wake. More names than a notification has room for: all readers wake.
        perform pg_notify('seriatim_tick',
            case when cardinality(moved) <= 300 then array_to_string(moved, ',') else '' end);
    end if;
    return cardinality(moved);
end
$$;

-- Makes a tick of one journal now, whether anything happened or not, and returns its number: where a consumer begins.
-- Waits for the sequencer. Where the caller has written already, no xid is known to be later than all numbers: any may be.
create or replace function seriatim.journal_tick_now(which bigint) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    taken pg_snapshot;
    newest bigint;
    last_id bigint;
    number bigint;
    first boolean := pg_current_xact_id_if_assigned() is null;
begin
    perform seriatim.refuse_stranger();
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'Seriatim''s sequencer needs isolation level "read committed"';
    end if;
    perform pg_advisory_xact_lock(hashtextextended('seriatim.journal_tick', 0));
    taken := pg_current_snapshot();
    newest := coalesce(pg_sequence_last_value(format('seriatim.journal_%s_id', which)::regclass), 0);
    last_id := coalesce((select t.max_id from seriatim.tick t where t.capture = which order by t.n desc limit 1), 0);
    if newest < last_id then
        newest := last_id + 1;
        perform seriatim.journal_set_forward(which, newest);
    end if;
    insert into seriatim.tick (capture, n, snapshot, max_id, horizon, at)
    values (which, seriatim.next_tick(which), taken, newest,
        case when first then pg_current_xact_id() else '18446744073709551615' end, clock_timestamp())
    returning n into number;
    return number;
end
$$;
