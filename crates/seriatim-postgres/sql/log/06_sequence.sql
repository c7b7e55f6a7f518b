-- Gives numbers to what is committed. One at a time for each log, until its commit: with two at work a higher number could be
-- visible before a lower one, and a reader would pass the lower one for ever.
--
-- What is to be sequenced is what the last pass did not see: changes of transactions from `floor` on, and of those that
-- were under way then (`late`). No row that a writer may hold is locked or written. A transaction that changed more than
-- one batch is continued by the next passes, side by side with what others do meanwhile. Returns how many numbers it gave, null
-- when somebody else is at it, or when a part of a TRUNCATE is left for the next time.
create or replace function seriatim.log_sequence(log int, batch_size int default 10000) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    entry seriatim.log;
    pass seriatim.log_pass;
    seen pg_snapshot;
    positions bigint[];
    place text;
    part record;
    got record;
    total bigint := 0;
    late_given bigint := 0;
    top xid8;
    floor xid8;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'numbers are given in transactions that are READ COMMITTED, and this one is %',
                upper(current_setting('transaction_isolation'))
            using hint = 'begin isolation level read committed';
    end if;
    if batch_size < 1 then
        raise exception 'a batch of % gives no numbers', batch_size using hint = 'give a batch size of at least 1';
    end if;
    -- A number must not be forgotten by a crash after somebody acted on it.
    if current_setting('synchronous_commit') = 'off' then
        perform set_config('synchronous_commit', 'local', true);
    end if;
    select * into strict entry from seriatim.log l where l.id = log_sequence.log;
    -- In a database that was restored from a dump, transactions have other numbers (see log_problems).
    if entry.watched_oid <> entry.watched::oid or not pg_try_advisory_xact_lock(seriatim.log_lock(log_sequence.log)) then
        return null;
    end if;
    select * into strict pass from seriatim.log_pass p where p.log = log_sequence.log order by p.n desc limit 1;
    select coalesce(array_agg(distinct at), '{}') into positions
    from seriatim.log_consumer c, unnest(c.positions) at where c.log = log_sequence.log;
    -- Everything below looks through these eyes, so that nothing falls between two passes.
    select pg_current_snapshot() into seen;
    top := pg_snapshot_xmax(seen);
    place := format('select * from seriatim.%I($1, $2, $3, $4, $5, $6)', entry.name || '_place');

    -- Big transactions go on, each with its share.
    for part in select p.xid, p.after, greatest(batch_size / count(*) over (), 1)::int as share
        from seriatim.log_partial p where p.log = log_sequence.log order by p.xid loop
        execute place into got using part.xid, part.xid, seen, part.after, positions, part.share;
        total := total + got.given;
        if got.given < part.share then
            delete from seriatim.log_partial p where p.log = log_sequence.log and p.xid = part.xid;
        else
            update seriatim.log_partial p set after = got.last_key where p.log = log_sequence.log and p.xid = part.xid;
        end if;
    end loop;

    -- Those that were under way the last time and are not any more.
    for part in select x.xid from unnest(pass.late) x (xid) where pg_visible_in_snapshot(x.xid, seen) order by x.xid loop
        execute place into got using part.xid, part.xid, seen, null::jsonb, positions, batch_size;
        late_given := late_given + got.given;
        if got.given = batch_size then
            insert into seriatim.log_partial values (log_sequence.log, part.xid, got.last_key);
        end if;
    end loop;

    -- Those that began since.
    execute place into got using pass.floor, top, seen, null::jsonb, positions, batch_size;
    floor := top;
    if got.given = batch_size then
        floor := (got.last_xid::text::numeric + 1)::text::xid8;
        insert into seriatim.log_partial values (log_sequence.log, got.last_xid, got.last_key);
    end if;

    if late_given + got.given > 0 then
        insert into seriatim.log_pass (log, n, floor, late)
        select log_sequence.log, pass.n + 1, floor, coalesce(array_agg(x.xid), '{}')
        from (select u.xid from unnest(pass.late) u (xid) where not pg_visible_in_snapshot(u.xid, seen)
              union select i.xid from pg_snapshot_xip(seen) i (xid) where i.xid < floor
              -- This transaction is not under way in its own eyes, and may still change something after this.
              union select pg_current_xact_id() where pg_current_xact_id() < floor) x;
        delete from seriatim.log_pass p where p.log = log_sequence.log and p.n = pass.n;
    end if;
    if got.given < batch_size and exists (select 1 from seriatim.log_truncated t where t.log = log_sequence.log)
       and not seriatim.log_sequence_vanished(entry, seen, batch_size) then
        return null;
    end if;
    return total + late_given + got.given;
end $$;

-- Gives numbers to what a TRUNCATE emptied that did not see all rows: once everything before it has numbers, so many places at a time.
-- Returns whether that is done.
create or replace function seriatim.log_sequence_vanished(entry seriatim.log, seen pg_snapshot, batch_size int) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    mark seriatim.log_truncated;
    got record;
begin
    if exists (select 1 from seriatim.log_partial p where p.log = entry.id) then
        return false;
    end if;
    for mark in select * from seriatim.log_truncated t where t.log = entry.id and pg_visible_in_snapshot(t.xid, seen) loop
        begin
            execute format('select * from seriatim.%I($1, $2)', entry.name || '_vanished') into got using mark.after, batch_size;
        exception when lock_not_available or deadlock_detected then
            -- A writer holds one of the keys. If it is rolled back, that key is still gone.
            return false;
        end;
        if got.upto is not null then
            update seriatim.log_truncated t set after = got.upto where t.log = entry.id and t.xid = mark.xid;
            return false;
        end if;
        delete from seriatim.log_truncated t where t.log = entry.id and t.xid = mark.xid;
    end loop;
    return true;
end $$;

-- Gives numbers in every log of this schema, and tells whoever listens. Returns how many.
create or replace function seriatim.log_tick() returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    one int;
    given bigint := 0;
begin
    for one in select l.id from seriatim.log l loop
        begin
            given := given + coalesce(seriatim.log_sequence(one), 0);
        exception when others then
            -- One log that somebody tampered with is not the end of the others.
            raise warning 'log % cannot be sequenced: %', one, sqlerrm;
        end;
    end loop;
    if given > 0 then
        perform pg_notify('seriatim_tick', 'log');
    end if;
    return given;
end $$;
