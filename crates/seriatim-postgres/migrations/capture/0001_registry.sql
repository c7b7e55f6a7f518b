-- The source's own books: which tables are watched, who consumes them, and the ticks that put changes in order.

-- One watched table, by one capture and one key. Columns are kept by number, so that they may be renamed.
create table seriatim.capture (
    id bigint generated always as identity primary key,
    kind text not null check (kind in ('journal', 'log')),
    relation oid not null,
    key int2[] not null,
    -- What the triggers were made for (see `known` in table.rs): another table, and they must be made anew.
    known text not null,
    -- Journal: the table of the ring that triggers write to; ticks before the floor are not retained.
    ring int2 not null default 0,
    floor bigint not null default 0,
    created_at timestamptz not null default now(),
    unique (kind, relation, key)
);

-- Somebody who reads a capture: retention waits for the slowest.
create table seriatim.consumer (
    id bigint generated always as identity primary key,
    capture bigint not null references seriatim.capture,
    feed text not null,
    store text not null,
    -- The position at which it began, and how many rows there were then.
    start text not null,
    since bigint not null,
    existing bigint not null,
    -- Everything up to here is handled: a tick (journal) or a number (log).
    consumed bigint not null,
    -- Log: it was shown numbers up to here, where its store is elsewhere.
    shown bigint,
    seen_at timestamptz not null default now(),
    unique (feed, store)
);

-- What was committed at one moment: batch n is what tick n sees and the tick before it did not.
create table seriatim.tick (
    capture bigint not null references seriatim.capture on delete cascade,
    n bigint not null,
    snapshot pg_snapshot not null,
    -- No row that the snapshot sees has a higher id; none that has a lower one was written by this transaction or a later one.
    max_id bigint not null,
    horizon xid8 not null,
    at timestamptz not null,
    primary key (capture, n)
);

-- Who runs the sequencer, so that others need not try all the time. Order never depends on it.
create table seriatim.sequencer (
    one boolean primary key default true check (one),
    holder text not null,
    seen_at timestamptz not null
);
