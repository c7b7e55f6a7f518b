-- The gates' tables: how far each object is applied, and the events that came too early.
create table seriatim.gate (
    gate text collate "C" not null,
    object text collate "C" not null,
    last_id bigint not null,               -- of the event that was applied last
    primary key (gate, object)
) with (fillfactor = 80);

create table seriatim.gate_held (
    gate text collate "C" not null,
    object text collate "C" not null,
    id bigint not null,
    prev bigint,                           -- the event it waits for
    body bytea not null,
    primary key (gate, object, id)
);

create index gate_held_after on seriatim.gate_held (gate, object, prev);

-- Moves an object from one event on to another and forgets what was held of it up to there. Returns whether it stood there, or stands there.
create function seriatim.gate_advance(gate_name text, object_name text, from_id bigint, to_id bigint) returns boolean
language plpgsql set search_path = pg_catalog as $$
begin
    if from_id is null then
        insert into seriatim.gate (gate, object, last_id) values (gate_name, object_name, to_id) on conflict do nothing;
        if not found then
            perform from seriatim.gate g where g.gate = gate_name and g.object = object_name and g.last_id = to_id;
        end if;
    else
        update seriatim.gate g set last_id = to_id
        where g.gate = gate_name and g.object = object_name and g.last_id in (from_id, to_id);
    end if;
    if not found then
        return false;
    end if;
    delete from seriatim.gate_held h where h.gate = gate_name and h.object = object_name and h.id <= to_id;
    return true;
end
$$;
