-- Pushing: for producers in any language, inside their own transactions.

-- Adds events to an object, the main one first. `at_most`, when it is not null, is how many may wait of one object; then nothing is written
-- when there is no room. Returns how many wait already in that case, otherwise null.
-- Touches: queue, queue_line, queue_object, queue_event, queue_waiting.
create function seriatim.queue_add(queue_name text, object_name text, events bytea[], at_most bigint) returns bigint
language plpgsql security definer set search_path = pg_catalog as $$
declare
    known bigint;
    here bigint;
begin
    if coalesce(cardinality(events), 0) = 0 then
        return null;
    end if;
    if object_name = '' or octet_length(object_name) > 1024 then
        raise exception 'an object name has 1 to 1024 bytes; this one has %', octet_length(object_name)
            using errcode = 'invalid_parameter_value';
    end if;
    perform from seriatim.queue q where q.name = queue_name;
    if not found then
        raise exception 'there is no queue %', queue_name
            using errcode = 'undefined_object', hint = 'a queue comes to be when it is first opened; check its name';
    end if;
    insert into seriatim.queue_line (queue, object) values (queue_name, object_name) on conflict do nothing;
    if found then
        insert into seriatim.queue_object (queue, object) values (queue_name, object_name) on conflict do nothing;
    end if;
    -- Until this transaction ends: who pushes next then draws greater ids, and commits later.
    perform from seriatim.queue_line l where l.queue = queue_name and l.object = object_name for update;
    select o.upto into here from seriatim.queue_object o where o.queue = queue_name and o.object = object_name;
    if at_most is not null then
        select count(*) into known from seriatim.queue_event e
        where e.queue = queue_name and e.object = object_name and e.id > coalesce(here, 0);
        if known + cardinality(events) > at_most then
            return known;
        end if;
    end if;
    select greatest(here, max(e.id)) into known from seriatim.queue_event e
    where e.queue = queue_name and e.object = object_name;
    select s.last_value into here from seriatim.queue_event_id s;
    if here < known then
        -- A failover has lost the counter's last steps. With room, for those who draw at this very moment.
        perform setval('seriatim.queue_event_id', known + 1000000);
    end if;
    insert into seriatim.queue_event (queue, object, id, at, body)
    select queue_name, object_name, nextval('seriatim.queue_event_id'), clock_timestamp(), pushed.event
    from (select u.event from unnest(events) with ordinality as u (event, nth) order by u.nth) as pushed;
    insert into seriatim.queue_waiting (queue, place, object)
    values (queue_name, nextval('seriatim.queue_back'), object_name);
    return null;
end
$$;

-- Pushes events, the main one first, with whatever else the caller's transaction does: `select seriatim.queue_push('works', 'work:1', '{…}')`.
create function seriatim.queue_push(queue_name text, object_name text, variadic events text[]) returns void
language sql set search_path = pg_catalog as $$
    select seriatim.queue_add(queue_name, object_name, array(
        select convert_to(u.event, 'UTF8') from unnest(events) with ordinality as u (event, nth) order by u.nth
    ), null)
$$;

-- The same for an object that may have only so many events waiting: with no room for these, it fails and says so.
create function seriatim.queue_push_at_most(queue_name text, object_name text, at_most bigint, variadic events text[])
returns void
language plpgsql set search_path = pg_catalog as $$
declare
    waiting bigint := seriatim.queue_add(queue_name, object_name, array(
        select convert_to(u.event, 'UTF8') from unnest(events) with ordinality as u (event, nth) order by u.nth
    ), at_most);
begin
    if waiting is not null then
        raise exception 'object % has % events waiting and may have %, so % more were refused',
            object_name, waiting, at_most, cardinality(events)
            using errcode = 'program_limit_exceeded',
                hint = 'try again when its consumer has caught up, or see why it has not';
    end if;
end
$$;

-- Has waiting workers look at once. Call it after the commit: within a transaction it would make all commits of the server queue up.
create function seriatim.queue_wake(queue_name text) returns void
language sql set search_path = pg_catalog as $$
    select pg_notify('seriatim_queue', queue_name)
$$;
