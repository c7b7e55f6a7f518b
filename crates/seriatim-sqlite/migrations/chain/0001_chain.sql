-- The chains of feeds: the last change of each object that a checkpoint has passed.
create table seriatim_chain (
    feed text not null,
    object text not null,
    last_id integer not null,
    primary key (feed, object)
) without rowid;
