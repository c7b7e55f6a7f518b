-- Working: what workers do. Each function is one step, in READ COMMITTED; what follows a lock sees what others did before it was had.
-- Locks are taken in one order, the worker's row before objects' rows, and where several objects are looked at none is waited for.

-- The events that are to be sent next: what was handed out already, or else at most so many more, which are then handed out.
-- The object is locked. Touches: queue_object, queue_event.
create function seriatim.queue_hand_out(queue_name text, object_name text, at_most bigint)
returns table (id bigint, at timestamptz, body bytea)
language plpgsql set search_path = pg_catalog as $$
declare
    handed bigint;
begin
    select o.upto into handed from seriatim.queue_object o where o.queue = queue_name and o.object = object_name;
    return query
        select e.id, e.at, e.body from seriatim.queue_event e
        where e.queue = queue_name and e.object = object_name and e.id <= handed
        order by e.id;
    if found then
        return;
    end if;
    select max(e.id) into handed from (
        select n.id from seriatim.queue_event n
        where n.queue = queue_name and n.object = object_name
        order by n.id limit at_most
    ) as e;
    if handed is null then
        return;
    end if;
    update seriatim.queue_object o set upto = handed where o.queue = queue_name and o.object = object_name;
    return query
        select e.id, e.at, e.body from seriatim.queue_event e
        where e.queue = queue_name and e.object = object_name and e.id <= handed
        order by e.id;
end
$$;

-- Forgets the entries of an object in the row of those that wait: whoever has it looks at its events again before it is released.
create function seriatim.queue_take_off(queue_name text, object_name text) returns void
language sql set search_path = pg_catalog as $$
    delete from seriatim.queue_waiting w
    where w.queue = queue_name and w.place in (
        select n.place from seriatim.queue_waiting n
        where n.queue = queue_name and n.object = object_name
        for update skip locked
    )
$$;

-- Sets an object free; with events left, it is the next one to be taken. The object is locked.
create function seriatim.queue_free(queue_name text, object_name text) returns void
language plpgsql set search_path = pg_catalog as $$
begin
    update seriatim.queue_object o set worker = null, session = null, epoch = null
    where o.queue = queue_name and o.object = object_name;
    if exists (select from seriatim.queue_event e where e.queue = queue_name and e.object = object_name) then
        insert into seriatim.queue_waiting (queue, place, object)
        values (queue_name, nextval('seriatim.queue_front'), object_name);
    end if;
end
$$;

-- Takes the first object that has events and that nobody holds. Returns `lost` when the worker was replaced, `nothing`, `busy` when
-- all that wait are being looked at by others, or `taken` on each of the events to send.
-- Touches: queue_worker, queue_waiting, queue_object, queue_event.
create function seriatim.queue_take(queue_name text, worker_name text, worker_session text, at_most bigint)
returns table (answer text, object text, epoch bigint, last_id bigint, id bigint, at timestamptz, body bytea)
language plpgsql set search_path = pg_catalog as $$
declare
    entry seriatim.queue_waiting;
    found_object seriatim.queue_object;
    -- Before the first place of all.
    after bigint := -9223372036854775808;
    is_busy boolean := false;
    drawn bigint;
begin
    -- Shared with this worker's other steps, and not with whoever takes it out.
    perform from seriatim.queue_worker w
    where w.queue = queue_name and w.name = worker_name and w.session = worker_session for key share;
    if not found then
        return query select 'lost', null::text, null::bigint, null::bigint, null::bigint, null::timestamptz, null::bytea;
        return;
    end if;
    loop
        select w.* into entry from seriatim.queue_waiting w
        where w.queue = queue_name and w.place > after
        order by w.place limit 1 for update skip locked;
        exit when not found;
        after := entry.place;
        select o.* into found_object from seriatim.queue_object o
        where o.queue = queue_name and o.object = entry.object for update skip locked;
        if not found then
            is_busy := true;
            continue;
        end if;
        if found_object.session is null and found_object.parked_error is null and exists (
            select from seriatim.queue_event e where e.queue = queue_name and e.object = entry.object
        ) then
            perform seriatim.queue_take_off(queue_name, entry.object);
            drawn := nextval('seriatim.queue_epoch');
            update seriatim.queue_object o set worker = worker_name, session = worker_session, epoch = drawn
            where o.queue = queue_name and o.object = entry.object;
            return query
                select 'taken', entry.object, drawn, found_object.last_id, h.id, h.at, h.body
                from seriatim.queue_hand_out(queue_name, entry.object, at_most) h;
            return;
        end if;
        -- Who holds it, or retries it, sees its events.
        delete from seriatim.queue_waiting w where w.queue = queue_name and w.place = entry.place;
    end loop;
    return query select case when is_busy then 'busy' else 'nothing' end,
        null::text, null::bigint, null::bigint, null::bigint, null::timestamptz, null::bytea;
end
$$;

-- Locks an object that is held under this session and epoch, and records that its events up to `sent` were sent. Returns whether it is held.
create function seriatim.queue_record(queue_name text, object_name text, of_session text, of_epoch bigint, sent bigint)
returns boolean
language plpgsql set search_path = pg_catalog as $$
begin
    perform from seriatim.queue_object o
    where o.queue = queue_name and o.object = object_name and o.session = of_session and o.epoch = of_epoch for update;
    if not found then
        return false;
    end if;
    if sent is not null then
        update seriatim.queue_object o set last_id = done.id
        from (select max(e.id) as id from seriatim.queue_event e
            where e.queue = queue_name and e.object = object_name and e.id <= sent) as done
        where o.queue = queue_name and o.object = object_name and done.id <= o.upto;
        delete from seriatim.queue_event e using seriatim.queue_object o
        where e.queue = queue_name and e.object = object_name and e.id <= sent
          and o.queue = queue_name and o.object = object_name and e.id <= o.last_id;
    end if;
    return true;
end
$$;

-- Records what was sent, and returns what is to be sent next or releases the object: `lost`, `released`, or `events` on each of them.
-- Touches: queue_object, queue_event, queue_waiting.
create function seriatim.queue_next(queue_name text, object_name text, of_session text, of_epoch bigint, sent bigint, at_most bigint)
returns table (answer text, last_id bigint, id bigint, at timestamptz, body bytea)
language plpgsql set search_path = pg_catalog as $$
begin
    if not seriatim.queue_record(queue_name, object_name, of_session, of_epoch, sent) then
        return query select 'lost', null::bigint, null::bigint, null::timestamptz, null::bytea;
        return;
    end if;
    perform seriatim.queue_take_off(queue_name, object_name);
    return query
        select 'events', o.last_id, h.id, h.at, h.body
        from seriatim.queue_hand_out(queue_name, object_name, at_most) h
            join seriatim.queue_object o on o.queue = queue_name and o.object = object_name;
    if not found then
        perform seriatim.queue_free(queue_name, object_name);
        return query select 'released', null::bigint, null::bigint, null::timestamptz, null::bytea;
    end if;
end
$$;

-- Records what was sent, and gives the object up. Returns whether it was held.
create function seriatim.queue_release(queue_name text, object_name text, of_session text, of_epoch bigint, sent bigint)
returns boolean
language plpgsql set search_path = pg_catalog as $$
begin
    if not seriatim.queue_record(queue_name, object_name, of_session, of_epoch, sent) then
        return false;
    end if;
    perform seriatim.queue_free(queue_name, object_name);
    return true;
end
$$;

-- Records what was sent, and sets the object aside. Returns whether it was held.
create function seriatim.queue_park(queue_name text, object_name text, of_session text, of_epoch bigint, sent bigint, why text, tries integer)
returns boolean
language plpgsql set search_path = pg_catalog as $$
begin
    if not seriatim.queue_record(queue_name, object_name, of_session, of_epoch, sent) then
        return false;
    end if;
    update seriatim.queue_object o
    set worker = null, session = null, epoch = null,
        parked_error = why, parked_attempts = tries, parked_since = clock_timestamp()
    where o.queue = queue_name and o.object = object_name;
    return true;
end
$$;

-- Queues a parked object again. Returns whether it was parked.
create function seriatim.queue_retry(queue_name text, object_name text) returns boolean
language plpgsql set search_path = pg_catalog as $$
begin
    update seriatim.queue_object o set parked_error = null, parked_attempts = null, parked_since = null
    where o.queue = queue_name and o.object = object_name and o.parked_error is not null;
    if not found then
        return false;
    end if;
    perform seriatim.queue_free(queue_name, object_name);
    return true;
end
$$;

-- Takes a worker out, if its session and beat are these (a null beat is any); what it held is queued again. Returns whether it was so.
create function seriatim.queue_remove(queue_name text, worker_name text, of_session text, of_beat bigint) returns boolean
language plpgsql set search_path = pg_catalog as $$
declare
    held record;
begin
    delete from seriatim.queue_worker w
    where w.queue = queue_name and w.name = worker_name and w.session = of_session and w.beat = coalesce(of_beat, w.beat);
    if not found then
        return false;
    end if;
    for held in
        select o.object from seriatim.queue_object o where o.queue = queue_name and o.session = of_session
        order by o.object for update
    loop
        perform seriatim.queue_free(queue_name, held.object);
    end loop;
    return true;
end
$$;

-- Enters a worker, in place of the session `replacing` where it holds the name and has not beaten since. Returns who holds the name instead.
create function seriatim.queue_join(queue_name text, worker_name text, new_session text, replacing text, beat_seen bigint)
returns table (session text, beat bigint)
language plpgsql set search_path = pg_catalog as $$
begin
    if replacing is not null then
        perform seriatim.queue_remove(queue_name, worker_name, replacing, beat_seen);
    end if;
    -- Its holder may leave between the two: then once more.
    loop
        insert into seriatim.queue_worker (queue, name, session, beat, seen_at)
        values (queue_name, worker_name, new_session, 0, clock_timestamp())
        on conflict do nothing;
        exit when found;
        return query
            select w.session, w.beat from seriatim.queue_worker w where w.queue = queue_name and w.name = worker_name;
        exit when found;
    end loop;
end
$$;

-- Drops the first event of a parked object, or all of them, if the first one is this; what is left is queued again. Returns how many are
-- gone; null when the object is not parked, or begins with another event. Remembers the last thousand times, and why.
-- Touches: queue_object, queue_event, queue_discarded, queue_waiting.
create function seriatim.queue_discard(queue_name text, object_name text, first bigint, all_of_it boolean, why text) returns bigint
language plpgsql set search_path = pg_catalog as $$
declare
    parked seriatim.queue_object;
    begins bigint;
    ends bigint;
    gone bigint;
begin
    select o.* into parked from seriatim.queue_object o
    where o.queue = queue_name and o.object = object_name and o.parked_error is not null for update;
    if not found then
        return null;
    end if;
    select min(e.id), max(e.id) into begins, ends from seriatim.queue_event e
    where e.queue = queue_name and e.object = object_name;
    if begins is distinct from first then
        return null;
    end if;
    ends := case when all_of_it then ends else first end;
    delete from seriatim.queue_event e where e.queue = queue_name and e.object = object_name and e.id <= ends;
    get diagnostics gone = row_count;
    update seriatim.queue_object o
    set last_id = ends, upto = greatest(o.upto, ends), parked_error = null, parked_attempts = null, parked_since = null
    where o.queue = queue_name and o.object = object_name;
    insert into seriatim.queue_discarded (queue, object, first_id, last_id, events, error, reason, at)
    values (queue_name, object_name, first, ends, gone, parked.parked_error, why, clock_timestamp());
    delete from seriatim.queue_discarded d where d.queue = queue_name and d.seq <= (
        select n.seq from seriatim.queue_discarded n where n.queue = queue_name order by n.seq desc offset 1000 limit 1
    );
    perform seriatim.queue_free(queue_name, object_name);
    return gone;
end
$$;
