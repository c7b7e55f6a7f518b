-- Removing a queue, without losing an event of a producer whose transaction is not over.

-- Removes a queue, unless events wait in it that are not to be lost. Returns whether it was there, and what waits in it when it stays.
-- Waits for producers that have pushed and are not over, for three seconds at most; those that come later find no queue.
-- Touches: queue, queue_event, queue_waiting, queue_line, queue_object, queue_worker, queue_discarded.
create function seriatim.queue_drop(queue_name text, with_events boolean)
returns table (events bigint, objects bigint, seconds float8, was_there boolean)
language plpgsql set search_path = pg_catalog, pg_temp set lock_timeout = '3s' as $$
begin
    perform pg_advisory_xact_lock(hashtextextended('seriatim.queue ' || queue_name, 0));
    select exists (select from seriatim.queue q where q.name = queue_name) into was_there;
    select count(*), count(distinct e.object), extract(epoch from clock_timestamp() - min(e.at))
    into events, objects, seconds
    from seriatim.queue_event e where e.queue = queue_name;
    if events > 0 and not with_events then
        return next;
        return;
    end if;
    events := 0;
    delete from seriatim.queue_worker w where w.queue = queue_name;
    delete from seriatim.queue_waiting w where w.queue = queue_name;
    delete from seriatim.queue_object o where o.queue = queue_name;
    delete from seriatim.queue_event e where e.queue = queue_name;
    delete from seriatim.queue_line l where l.queue = queue_name;
    delete from seriatim.queue_discarded d where d.queue = queue_name;
    delete from seriatim.queue q where q.name = queue_name;
    return next;
end
$$;

-- Adds events to an object, the main one first. `at_most`, when it is not null, is how many may wait of one object; then nothing is written
-- when there is no room. Returns how many wait already in that case, otherwise null.
-- Touches: queue, queue_line, queue_object, queue_event, queue_waiting.
create or replace function seriatim.queue_add(queue_name text, object_name text, events bytea[], at_most bigint) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
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
    -- Such a transaction sees nothing that was pushed since it began, so it would count too few.
    if at_most is not null and current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
        raise exception 'a push with a limit needs a transaction that is READ COMMITTED, and this one is %',
                upper(current_setting('transaction_isolation'))
            using errcode = 'object_not_in_prerequisite_state',
                detail = 'it does not see the events that others have pushed since it began',
                hint = 'begin isolation level read committed, or push without a limit';
    end if;
    -- Until this transaction ends, nobody removes the queue; and whoever has removed it is seen by the look that follows.
    perform pg_advisory_xact_lock_shared(hashtextextended('seriatim.queue ' || queue_name, 0));
    if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
        -- Such a transaction sees what was there when it began: to lock the row fails when it was removed since.
        perform from seriatim.queue q where q.name = queue_name for key share;
    else
        perform from seriatim.queue q where q.name = queue_name;
    end if;
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
    -- Counts no further than the limit, unless there is no room: then the producer is told how many there are.
    if at_most is not null and (cardinality(events) > at_most or exists (
        select from seriatim.queue_event e
        where e.queue = queue_name and e.object = object_name and e.id > coalesce(here, 0)
        order by e.id offset at_most - cardinality(events) limit 1
    )) then
        select count(*) into known from seriatim.queue_event e
        where e.queue = queue_name and e.object = object_name and e.id > coalesce(here, 0);
        return known;
    end if;
    -- The newest first, by the index: as a maximum it is planned as a look at all of them.
    select e.id into known from seriatim.queue_event e
    where e.queue = queue_name and e.object = object_name
    order by e.id desc limit 1;
    known := greatest(here, known);
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
