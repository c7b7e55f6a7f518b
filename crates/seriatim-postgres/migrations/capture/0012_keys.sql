-- A tick says whose changes it saw, where they are few, so that hosts whose partitions have no part in them stay asleep.

-- The hashes of the keys of a journal's changes with these ids, as a notification names them; empty where something concerns all.
create function seriatim.journal_keys(which bigint, after_id bigint, upto_id bigint) returns text
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    hashes text;
begin
    execute format(
        'select case when bool_and(j.hash is not null and j.op in (''i'', ''u'', ''d'')) then string_agg(distinct j.hash::text, '';'') end
         from seriatim.journal_%s j where j.id > $1 and j.id <= $2', which)
    into hashes using after_id, upto_id;
    return coalesce(':' || hashes, '');
end
$$;

-- Ticks those of these journals in which something was committed since their last tick. Returns how many, null when another
-- sequencer is at it. The notification names the journals, so that only their readers wake; where few changes are new and none can be
-- late, also the hashes of their keys (`5:17;4`), so that only the owners of their partitions do. Reads all
-- sequences before it writes anything: whoever drew a number up to max_id has an older xid than this one.
create or replace function seriatim.journal_tick(which bigint[]) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    taken pg_snapshot;
    one record;
    moved bigint[] := '{}';
    max_ids bigint[] := '{}';
    set_back bigint[] := '{}';
    names text[] := '{}';
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
            names := names || (one.id || case
                when not late and one.newest between one.max_id and one.max_id + 8 and pg_snapshot_xmin(one.snapshot) >= one.horizon
                then seriatim.journal_keys(one.id, one.max_id, one.newest) else '' end);
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
        -- More names than a notification has room for: all readers wake.
        perform pg_notify('seriatim_tick', case when length(array_to_string(names, ',')) <= 7000 then array_to_string(names, ',') else '' end);
    end if;
    return cardinality(moved);
end
$$;
