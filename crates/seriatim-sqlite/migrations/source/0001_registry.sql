-- What Seriatim watches in this file, and for whom.
create table seriatim_capture (
    id integer primary key autoincrement,
    kind text not null,                 -- 'journal' | 'log'
    table_name text not null,           -- as at install: the triggers know the present name
    key_slots text not null,            -- JSON: the key columns by their place in the table, which survives a rename
    shapes text not null,               -- JSON: [[after_id, columns], …]: changes after that id carry that many columns
    known text not null,                -- JSON: what the triggers know of the table's unique indexes and of other triggers
    floor integer not null,             -- positions below this are no longer (or never were) retained
    pruned integer not null,            -- log: the highest place of a delete that is forgotten
    seeds integer not null default 0,   -- log: places up to this are kept for rows that were there before the triggers
    seeded text                         -- log: null until asked for, then the last place and key, then 'done'
);
create table seriatim_consumer (
    id integer primary key autoincrement,
    capture integer not null,
    feed text not null,
    store text not null,
    start text not null,                -- the position where every partition began
    snapshot integer not null,          -- the head when the consumer was registered, numbers for the rows that existed included
    snapshot_at integer not null,       -- and when that was, in ms
    total integer not null,             -- rows that existed then, when they are to be read
    consumed integer not null,          -- everything up to here is handled
    seen_at integer not null,           -- when the consumer last said so, in ms
    unique (feed, store)
);
