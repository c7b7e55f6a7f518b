-- What somebody dropped of parked objects, and why.
create table seriatim_queue_discarded (
    seq integer primary key autoincrement,
    queue text not null,
    object text not null,
    first_id integer not null,
    last_id integer not null,
    events integer not null,
    error text not null,
    reason text not null,
    at integer not null                        -- milliseconds since 1970
);

create index seriatim_queue_discarded_of on seriatim_queue_discarded (queue, seq);
