-- The chains of feeds: the last change of each object that a checkpoint has passed.
create table seriatim.chain (
    feed text collate "C" not null,
    object bytea not null,
    last_id bigint not null,
    primary key (feed, object)
) with (fillfactor = 80);
