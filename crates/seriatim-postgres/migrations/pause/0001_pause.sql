-- The feeds and queues that an operator has paused.
create table seriatim.paused (
    feed text collate "C" primary key,
    since timestamptz not null default clock_timestamp()
);
