-- The gates' tables: how far each object is applied, and the events that came too early.
create table seriatim_gate (
    gate text not null,
    object text not null,
    last_id integer not null,              -- of the event that was applied last
    primary key (gate, object)
) without rowid;

create table seriatim_gate_held (
    gate text not null,
    object text not null,
    id integer not null,
    prev integer,                          -- the event it waits for
    body text not null,
    primary key (gate, object, id)
) without rowid;
