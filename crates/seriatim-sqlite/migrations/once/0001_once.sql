-- The ledger of signals: one row for each signal of each processor.
create table seriatim_once (
    seq integer primary key,         -- keeps results, which may be large, out of the tree of ids
    processor text not null,
    id text not null,
    state text not null,             -- running, completed, unknown
    attempt text not null,           -- who may write: drawn by the attempt itself
    number integer not null,         -- which attempt it is
    beat integer not null,           -- moved by every sign of life
    beat_boot text,                  -- the clock that beat_at is of: one run of the machine; null where there is none
    beat_at integer,                 -- milliseconds of that clock
    started_at integer not null,     -- milliseconds since 1970
    completed_at integer,            -- milliseconds since 1970
    expires_on integer,              -- seconds since 1970; null: never
    limit_ms integer not null,       -- the most time that the run takes without a sign of life
    removable_ms integer,            -- after how long without one the row may be removed; null: never
    removable_on integer,            -- seconds since 1970 from which on the row may be removed; null: not now
    result blob,
    not_kept text,                   -- why there is no result
    unique (processor, id)
);

create index seriatim_once_removable on seriatim_once (removable_on) where removable_on is not null;
