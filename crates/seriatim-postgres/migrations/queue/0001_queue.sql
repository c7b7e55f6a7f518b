-- The event queues' tables: their events, the objects these are about, who waits for a worker, and the workers.
-- Names sort by bytes, everywhere alike.
create table seriatim.queue (
    name text collate "C" primary key
);

-- One counter for all: no id is ever drawn twice, also not by a transaction that was rolled back.
create sequence seriatim.queue_event_id;
create sequence seriatim.queue_epoch;
-- Places in the row of objects that wait for a worker: behind all others, and before all others.
create sequence seriatim.queue_back;
create sequence seriatim.queue_front increment -1 start -1;

-- Events come and go: their tables are cleaned long before a fifth of them is dead.
create table seriatim.queue_event (
    queue text collate "C" not null,
    object text collate "C" not null,
    id bigint not null,                -- drawn at the push, so it is the same however often the event is sent
    at timestamptz not null,           -- when it was pushed
    body bytea not null,
    primary key (queue, object, id)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

-- What producers lock, and nobody else: the pushes to one object follow each other, so the order of its ids is that of the commits.
create table seriatim.queue_line (
    queue text collate "C" not null,
    object text collate "C" not null,
    primary key (queue, object)
);

-- What workers lock, and nobody else: a producer whose transaction is open keeps no worker waiting.
create table seriatim.queue_object (
    queue text collate "C" not null,
    object text collate "C" not null,
    last_id bigint,                    -- of the event that was recorded as sent last
    upto bigint,                       -- of the event that was handed out last
    worker text collate "C",           -- who holds it
    session text,
    epoch bigint,
    parked_error text,                 -- why it is set aside; null when it is not
    parked_attempts integer,
    parked_since timestamptz,
    primary key (queue, object)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

create index queue_object_held on seriatim.queue_object (session) where session is not null;
create index queue_object_parked on seriatim.queue_object (queue, object) where parked_error is not null;

-- Objects with (potentially) events, the next one first; every push adds one, and one object may stand here more than once.
create table seriatim.queue_waiting (
    queue text collate "C" not null,
    place bigint not null,
    object text collate "C" not null,
    primary key (queue, place)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

create index queue_waiting_object on seriatim.queue_waiting (queue, object);

create table seriatim.queue_worker (
    queue text collate "C" not null,
    name text collate "C" not null,
    session text not null,
    beat bigint not null,
    seen_at timestamptz not null,
    primary key (queue, name)
);

-- What somebody dropped of parked objects, and why.
create table seriatim.queue_discarded (
    queue text collate "C" not null,
    seq bigint generated always as identity,
    object text collate "C" not null,
    first_id bigint not null,
    last_id bigint not null,
    events bigint not null,
    error text not null,
    reason text not null,
    at timestamptz not null,
    primary key (queue, seq)
);
