-- The gate for consumers that speak SQL: each function is part of the consumer's own transaction, so the place of an object moves
-- with the effect or not at all. The functions have the rights of their caller, who needs `select, insert, update` on `gate` and
-- `select, delete` on `gate_held`.

-- Decides about an event of an object: `apply` (and moves the object on to it), `duplicate` (it was applied) or `wait` (an event before it
-- is missing; deliver it again later). `of_states` is for the states of a log feed, of which a newer one takes the place of all before.
-- Holds the object until the transaction ends: of two consumers with one event, the second waits and finds a duplicate.
-- Touches: gate, gate_held.
create or replace function seriatim.gate_admit(gate text, object text, id bigint, prev bigint, of_states boolean default false)
returns text
language plpgsql set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    last bigint;
begin
    perform seriatim.gate_names(gate_admit.gate, gate_admit.object, gate_admit.id);
    if gate_admit.prev < 0 or gate_admit.prev >= gate_admit.id then
        raise exception 'event % of % follows %, which is not smaller', gate_admit.id, gate_admit.object, gate_admit.prev
            using errcode = 'invalid_parameter_value';
    end if;
    if gate_admit.prev is null then
        insert into seriatim.gate (gate, object, last_id) values (gate_admit.gate, gate_admit.object, gate_admit.id)
        on conflict do nothing;
        if found then
            return 'apply';
        end if;
    end if;
    select g.last_id into last from seriatim.gate g
    where g.gate = gate_admit.gate and g.object = gate_admit.object for update;
    if gate_admit.id <= last then
        return 'duplicate';
    elsif last is null or gate_admit.prev > last then
        return 'wait';
    elsif gate_admit.prev is distinct from last and not coalesce(of_states, false) then
        raise exception 'event % of % follows %, but % was applied after that: the chain has been forked',
                gate_admit.id, gate_admit.object, coalesce(gate_admit.prev::text, 'nothing'), last
            using errcode = 'SR002', hint = 'find out which producer wrote it; seriatim.gate_begin moves the object on by hand';
    end if;
    update seriatim.gate g set last_id = gate_admit.id where g.gate = gate_admit.gate and g.object = gate_admit.object;
    delete from seriatim.gate_held h
    where h.gate = gate_admit.gate and h.object = gate_admit.object and h.id <= gate_admit.id;
    return 'apply';
end
$$;

-- Lets an object's chain begin after an event: for a consumer that starts with a copy of the object, or has settled a gap by hand.
-- Never moves it back. Touches: gate, gate_held.
create or replace function seriatim.gate_begin(gate text, object text, id bigint) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
    perform seriatim.gate_names(gate_begin.gate, gate_begin.object, gate_begin.id);
    insert into seriatim.gate as g (gate, object, last_id) values (gate_begin.gate, gate_begin.object, gate_begin.id)
    on conflict (gate, object) do update set last_id = excluded.last_id where g.last_id < excluded.last_id;
    delete from seriatim.gate_held h
    where h.gate = gate_begin.gate and h.object = gate_begin.object and h.id <= gate_begin.id;
end
$$;

-- Refuses what the program could not read.
create or replace function seriatim.gate_names(gate text, object text, id bigint) returns void
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
    if gate is null or gate = '' or octet_length(gate) > 200 or gate ~ '[\u0001-\u001f\u007f-\u009f]' then
        raise exception 'a gate''s name has 1 to 200 bytes and no control characters; this one is %',
                coalesce(quote_literal(left(gate, 100)), 'null')
            using errcode = 'invalid_parameter_value';
    end if;
    if object is null or object = '' or octet_length(object) > 1024 then
        raise exception 'an object name has 1 to 1024 bytes; this one has %', coalesce(octet_length(object), 0)
            using errcode = 'invalid_parameter_value';
    end if;
    if id is null or id < 0 then
        raise exception 'an event''s id is a number from 0; this one is %', coalesce(id::text, 'null')
            using errcode = 'invalid_parameter_value';
    end if;
end
$$;
