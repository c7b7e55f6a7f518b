-- The ledger of signals: one row for each signal of each processor. Ids sort by bytes, everywhere alike.
create table seriatim.once (
    processor text collate "C" not null,
    id text collate "C" not null,
    state text not null,               -- running, completed, unknown
    attempt text not null,             -- who may write: drawn by the attempt itself
    number bigint not null,            -- which attempt it is
    beat bigint not null,              -- moved by every sign of life
    beat_at timestamptz not null,      -- when it last was, by the server's clock
    beat_in timestamptz not null,      -- the start of the server in whose life that was: another may have another clock
    started_at timestamptz not null,
    completed_at timestamptz,
    expires_on bigint,                 -- seconds since 1970; null: never
    limit_ms bigint not null,          -- the most time that the run takes without a sign of life
    removable_on bigint,               -- seconds since 1970 from which on the row may be removed; null: not now
    result bytea,
    not_kept text,                     -- why there is no result
    primary key (processor, id)
);

create index once_removable on seriatim.once (removable_on) where removable_on is not null;
