-- The store's tables: who it is, its hosts, feeds, leases, what is parked and what was discarded. Names sort by bytes, everywhere
-- alike.
create table seriatim.store (
    only_row boolean primary key default true check (only_row),
    id text not null
);

create table seriatim.host (
    name text collate "C" primary key,
    session text not null unique,
    feeds text[] not null,
    beat bigint not null,
    seen_at timestamptz not null,
    lock_key bigint not null,                -- of the advisory lock that the host holds while its process lives
    lock_number integer not null default 0,  -- how often it took the lock: a connection that broke is replaced
    locked_in timestamptz,                   -- the start of the server in whose life it last took the lock; null: it never did
    troubles text not null default '[]'      -- what keeps it from going on, JSON
) with (fillfactor = 50, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0);

create table seriatim.feed (
    name text collate "C" primary key,
    partitions integer not null
);

-- Renewals and checkpoints change no indexed column, so that they leave nothing behind in the index.
create table seriatim.lease (
    feed text collate "C" not null,
    partition integer not null,
    owner text,                    -- a host's name; null when the lease is free
    session text,                  -- the owner's session
    epoch bigint not null,
    version bigint not null,
    position text not null,
    hand_over_to text,             -- the host that asked for it, or for which it was set free
    asked bigint not null default 0,   -- moves when somebody asks for a retry or a discard in the partition
    primary key (feed, partition)
) with (fillfactor = 50, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0);

-- Whoever changes what is parked in a partition, or waits there, holds the row of its lease: first that, then these rows.
create table seriatim.parked (
    seq bigint generated always as identity primary key,   -- in the order of parking
    feed text collate "C" not null,
    partition integer not null,
    object bytea not null,         -- the key's values, by which an object is found
    key text not null,             -- the key with its columns
    error text not null,
    attempts integer not null,
    retrying boolean not null,     -- its owner tries it again by itself
    since timestamptz not null default clock_timestamp()
);

-- Keys may be longer than an index takes, so they are found by their hash.
create unique index parked_object on seriatim.parked (feed, sha256(object));

create table seriatim.parked_change (
    seq bigint generated always as identity primary key,   -- in the order of parking
    parked bigint not null references seriatim.parked on delete cascade,
    change_id bigint not null,     -- all 64 bits are used, the sign too
    change text not null,          -- JSON, lossless
    unique (parked, change_id)
);

-- The changes of one object in their order, without sorting.
create index parked_change_in_order on seriatim.parked_change (parked, seq);

create table seriatim.discarded (
    seq bigint generated always as identity primary key,   -- in the order of discarding
    feed text collate "C" not null,
    partition integer not null,
    key text not null,             -- the key with its columns
    first_id bigint not null,
    last_id bigint not null,
    changes bigint not null,
    error text not null,
    reason text not null,
    at timestamptz not null default clock_timestamp()
);

create index discarded_in_order on seriatim.discarded (feed, seq);
