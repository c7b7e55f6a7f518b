-- Forgetting: a journal is a ring of tables, and what nobody needs any more is cut off with the whole table.

-- Forgets what every consumer has handled, and lets the ring turn when its table has grown beyond so many bytes. Returns about
-- how many changes are gone. Waits for nobody: what is in use is forgotten later.
create function seriatim.journal_prune(which bigint, turn_at bigint) returns bigint
language plpgsql security definer set search_path = pg_catalog set lock_timeout = '50ms' as $$
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

-- Whether a table of a ring has changes that a snapshot does not see.
create function seriatim.journal_left_over(ring regclass, seen pg_snapshot) returns boolean
language plpgsql set search_path = pg_catalog as $$
declare
    found_one boolean;
begin
    execute format('select exists (select 1 from %1$s j where j.xid >= $1)
        or exists (select 1 from %1$s j where j.xid = any ($2))', ring)
    into found_one
    using pg_snapshot_xmax(seen), array(select pg_snapshot_xip(seen));
    return found_one;
end
$$;

-- Lets triggers write to the next table of the ring, if that is empty.
create function seriatim.journal_turn(which bigint, current int2) returns void
language plpgsql security definer set search_path = pg_catalog as $$
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
            and p.proname = any (array[format('journal_%s_insert', which), format('journal_%s_update', which),
                                       format('journal_%s_delete', which), format('journal_%s_truncate', which)])
    loop
        execute replace(definition, format('journal_%s_%s ', which, current), format('journal_%s_%s ', which, following));
    end loop;
    update seriatim.capture c set ring = following where c.id = which;
end
$$;
