-- The store's tables: who it is, its hosts, feeds, leases, and what is parked.
create table seriatim_store (
    only_row integer primary key check (only_row = 1),
    id text not null
);

create table seriatim_host (
    name text primary key,
    session text not null unique,
    feeds text not null,           -- JSON array of names
    beat integer not null,
    seen_at integer not null       -- milliseconds since 1970
) without rowid;

create table seriatim_feed (
    name text primary key,
    partitions integer not null
) without rowid;

create table seriatim_lease (
    feed text not null,
    partition integer not null,
    owner text,                    -- a host's name; null when the lease is free
    session text,                  -- the owner's session
    epoch integer not null,
    version integer not null,
    position text not null,
    hand_over_to text,             -- the host that asked for it, or for which it was set free
    primary key (feed, partition)
) without rowid;

create table seriatim_parked (
    seq integer primary key,       -- in the order of parking
    feed text not null,
    partition integer not null,
    object text not null,          -- the key's values, by which an object is found
    key text not null,             -- the key with its columns
    error text not null,
    attempts integer not null,
    since integer not null,        -- milliseconds since 1970
    unique (feed, object)
);

create table seriatim_parked_change (
    seq integer primary key,       -- in the order of parking
    feed text not null,
    object text not null,
    change_id integer not null,
    change text not null,          -- JSON, lossless
    unique (feed, object, change_id)
);

-- The changes of one object in their order, without sorting.
create index seriatim_parked_change_in_order on seriatim_parked_change (feed, object);
