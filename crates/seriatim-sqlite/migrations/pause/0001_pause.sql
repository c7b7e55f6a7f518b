-- The feeds and queues that an operator has paused.
create table seriatim_paused (
    feed text primary key,
    since integer not null              -- in ms
) without rowid;
