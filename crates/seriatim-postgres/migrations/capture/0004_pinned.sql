-- Pins the search path of the functions that captures share. With `pg_temp` at its end, nobody's temporary table or type stands for
-- one of the server's: without it, PostgreSQL looks there first. Not pinned are `column_name`, `column_name_now` and `json_text`:
-- they name everything with its schema, and are put into the statements that call them.
alter function seriatim.tick_guard() set search_path = pg_catalog, pg_temp;
alter function seriatim.journal_tick() set search_path = pg_catalog, pg_temp;
alter function seriatim.next_tick(bigint) set search_path = pg_catalog, pg_temp;
alter function seriatim.journal_late(bigint, pg_snapshot, bigint, xid8, pg_snapshot) set search_path = pg_catalog, pg_temp;
alter function seriatim.tick() set search_path = pg_catalog, pg_temp;
alter function seriatim.journal_tick_now(bigint) set search_path = pg_catalog, pg_temp;
alter function seriatim.table_nests(oid) set search_path = pg_catalog, pg_temp;
alter function seriatim.journal_prune(bigint, bigint) set search_path = pg_catalog, pg_temp;
alter function seriatim.journal_left_over(regclass, pg_snapshot) set search_path = pg_catalog, pg_temp;
alter function seriatim.journal_turn(bigint, int2) set search_path = pg_catalog, pg_temp;

-- Only `journal_prune` calls it, with the owner's rights. Anybody else has only rights of their own.
alter function seriatim.journal_turn(bigint, int2) security invoker;

-- Refuses a session that may not write to Seriatim's tables. For functions that run with their owner's rights and that only those need
-- who run the program. Asks about the role that logged in: in such a function it is the only one of the caller's that is known.
create function seriatim.refuse_stranger() returns void
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
    if not has_table_privilege(session_user, 'seriatim.tick', 'insert')
       and not pg_has_role(session_user, current_user, 'member') then
        raise exception 'role % may not write to Seriatim''s tables', session_user
            using errcode = 'insufficient_privilege', hint = 'seriatim check lists the grants that running it needs';
    end if;
end
$$;

-- Makes a tick of one journal now, whether anything happened or not, and returns its number: where a consumer begins.
-- Waits for the sequencer. Where the caller has written already, no xid is known to be later than all numbers: any may be.
create or replace function seriatim.journal_tick_now(which bigint) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    taken pg_snapshot;
    newest bigint;
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
    insert into seriatim.tick (capture, n, snapshot, max_id, horizon, at)
    values (which, seriatim.next_tick(which), taken, newest,
        case when first then pg_current_xact_id() else '18446744073709551615' end, clock_timestamp())
    returning n into number;
    return number;
end
$$;

-- Forgets what every consumer has handled, and lets the ring turn when its table has grown beyond so many bytes. Returns about
-- how many changes are gone. Waits for nobody: what is in use is forgotten later.
create or replace function seriatim.journal_prune(which bigint, turn_at bigint) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '50ms' as $$
declare
    slowest bigint;
    seen pg_snapshot;
    current int2;
    ring text;
    gone bigint := 0;
    first_id bigint;
    last_id bigint;
    left_over boolean;
begin
    perform seriatim.refuse_stranger();
    if not pg_try_advisory_xact_lock(hashtextextended('seriatim.journal_prune', which)) then
        return 0;
    end if;
    select min(c.consumed) into slowest from seriatim.consumer c where c.capture = which;
    select t.snapshot into seen from seriatim.tick t where t.capture = which and t.n = slowest;
    select c.ring into current from seriatim.capture c where c.id = which;
    if seen is null or current is null then
        return 0;
    end if;
    if exists (select 1 from seriatim.tick t where t.capture = which and t.n < slowest) then
        update seriatim.capture c set floor = slowest where c.id = which and c.floor < slowest;
        delete from seriatim.tick t where t.capture = which and t.n < slowest;
    end if;
    for at in 0 .. 2 loop
        continue when at = current;
        ring := format('seriatim.journal_%s_%s', which, at);
        execute format('select id from %s order by id limit 1', ring) into first_id;
        continue when first_id is null;
        execute format('select seriatim.journal_left_over(%L::regclass, $1)', ring) into left_over using seen;
        continue when left_over;
        begin
            execute format('select id from %s order by id desc limit 1', ring) into last_id;
            execute format('lock table %s in access exclusive mode', ring);
            -- Somebody may have written to it before it was locked.
            execute format('select seriatim.journal_left_over(%L::regclass, $1)', ring) into left_over using seen;
            if not left_over then
                execute format('truncate table only %s', ring);
                gone := gone + last_id - first_id + 1;
            end if;
        exception when lock_not_available or deadlock_detected then
            null;
        end;
    end loop;
    if pg_relation_size(format('seriatim.journal_%s_%s', which, current)::regclass) > turn_at then
        perform seriatim.journal_turn(which, current);
    end if;
    return gone;
end
$$;
