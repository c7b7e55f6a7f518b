-- The event queues' tables: their counters, events, objects and workers.
create table seriatim_queue (
    name text primary key,
    last_id integer not null default 0,        -- the event id that was given out last
    last_epoch integer not null default 0      -- the epoch that was given out last
) without rowid;

create table seriatim_queue_event (
    seq integer primary key autoincrement,     -- in the order of pushing
    queue text not null,
    object text not null,
    body blob not null,
    id integer,                                -- null until it is stamped; it is gone when it is recorded as sent
    stamped_at integer                         -- milliseconds since 1970
);

-- One object's events in their order, without sorting; and the few that are stamped, without looking at all the others.
create index seriatim_queue_event_in_order on seriatim_queue_event (queue, object, seq);
create index seriatim_queue_event_stamped on seriatim_queue_event (queue, object, id) where id is not null;

create table seriatim_queue_object (
    queue text not null,
    object text not null,
    queued integer,                            -- its place among the objects with events; null when it is not queued
    last_id integer,                           -- of the event that was recorded as sent last
    worker text,                               -- who holds it
    session text,
    epoch integer,
    parked_error text,                         -- why it is set aside; null when it is not
    parked_attempts integer,
    parked_since integer,                      -- milliseconds since 1970
    primary key (queue, object)
) without rowid;

create index seriatim_queue_object_queued on seriatim_queue_object (queue, queued) where queued is not null;
create index seriatim_queue_object_held on seriatim_queue_object (session) where session is not null;

create table seriatim_queue_worker (
    queue text not null,
    name text not null,
    session text not null,
    beat integer not null,
    seen_at integer not null,                  -- milliseconds since 1970
    primary key (queue, name)
) without rowid;
