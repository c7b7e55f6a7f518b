-- What becomes of parked objects: tried again, or discarded with a reason; and what keeps a host from going on.
alter table seriatim_parked add column retrying integer not null default 0;   -- 1: its owner tries it again by itself

-- Moves when somebody asks for a retry or a discard in the partition.
alter table seriatim_lease add column asked integer not null default 0;

alter table seriatim_host add column troubles text not null default '[]';     -- JSON array

create table seriatim_discarded (
    seq integer primary key,       -- in the order of discarding
    feed text not null,
    partition integer not null,
    key text not null,             -- the key with its columns
    first_id integer not null,
    last_id integer not null,
    changes integer not null,
    error text not null,
    reason text not null,
    at integer not null            -- milliseconds since 1970
);

create index seriatim_discarded_by_feed on seriatim_discarded (feed);
