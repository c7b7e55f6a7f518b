-- The books of the logs: which tables are watched, who consumes them, how far they are sequenced. Safe to run again.

-- One row for each watched table.
create table if not exists seriatim.log (
    id            int generated always as identity primary key,
    watched       regclass not null unique,
    watched_oid   oid      not null,                    -- another one, and the log came here with a dump
    name          text     not null unique,             -- log_id_orders, a view in this schema
    key_columns   text[]   not null,                    -- as the log names them
    key_attnums   int2[]   not null,                    -- as the watched table has them: a rename does not matter
    key_index     oid      not null,                    -- the unique index over the key
    foreign_key   boolean  not null,
    deletes       boolean  not null default false,      -- deleted rows leave a trace
    made_for      text,                                 -- the names that its functions were made with
    by_program    boolean  not null default false,      -- made by the program, which takes it out again after its last consumer
    repairs       int      not null default 0,          -- how often its triggers were put back
    repaired      bigint   not null default 0,          -- changes before this number may be missing
    broken        text,                                 -- why writers' changes are not noted any more
    installed_at  timestamptz not null default clock_timestamp(),
    pruned        bigint   not null default 0,          -- the last number of a deleted key that is forgotten
    swept         bigint   not null default 0,          -- how far places of vanished rows were looked for
    listing       text     not null default 'no' check (listing in ('no', 'running', 'done')),
    listing_after jsonb,                                -- the last key that is listed
    listed        bigint   not null default 0,          -- how many rows are listed
    listed_upto   bigint   not null default 0,          -- the number that the last of them got
    to_list       bigint   not null default 0           -- about how many there were when it began
);

-- The names that the key's columns had in the table when the functions were last made: by these a dump is mended.
alter table seriatim.log add column if not exists key_now text[];

-- The triggers as they were made (see log_triggers): one that was written since may have been disabled for a while.
alter table seriatim.log add column if not exists made jsonb;

-- How far the numbers of logs went that are gone.
create table if not exists seriatim.log_watermark (
    one boolean primary key default true check (one),
    id  bigint  not null
);

-- Who reads a log. What a consumer still has to see stays where it is until it has passed it.
create table if not exists seriatim.log_consumer (
    log       int    not null references seriatim.log on delete cascade,
    name      text   not null,
    begins    bigint not null,
    rows      boolean not null,                         -- the rows that existed before come too
    positions bigint[] not null,                        -- everything up to here is handled, one for each partition
    seen_at   timestamptz not null default clock_timestamp(),
    primary key (log, name)
);

-- How far a log is sequenced: whatever changed before `floor` has its number, except what the transactions in `late` did.
-- A row for each pass, and the last one counts: that is found at once even while an old snapshot keeps the dead ones.
create table if not exists seriatim.log_pass (
    log   int    not null,
    n     bigint not null,
    floor xid8   not null,
    late  xid8[] not null,
    primary key (log, n)
);

-- Transactions that changed more than one pass gives numbers to, and the last key of theirs that has one.
create table if not exists seriatim.log_partial (
    log   int   not null,
    xid   xid8  not null,
    after jsonb not null,
    primary key (log, xid)
);

-- Keys that a consumer written in SQL could not handle. They are tried again; the others go on.
create table if not exists seriatim.log_parked (
    log      int    not null,
    consumer text   not null,
    key      jsonb  not null,
    error    text   not null,
    attempts int    not null default 1,
    since    timestamptz not null default clock_timestamp(),
    retry_at timestamptz not null,
    primary key (log, consumer, key),
    foreign key (log, consumer) references seriatim.log_consumer on delete cascade
);

-- Transactions that emptied the table and could not see all of its rows, and how far places were looked through for what is gone.
create table if not exists seriatim.log_truncated (
    log   int    not null,
    xid   xid8   not null,
    after bigint not null default 0,
    primary key (log, xid)
);
