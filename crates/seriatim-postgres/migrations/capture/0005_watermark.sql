-- Ids go on upwards when a table is watched again: receivers leave out what is not newer.

-- The highest id that a journal gave which is not there any more.
create table seriatim.watermark (
    one boolean primary key default true check (one),
    id bigint not null
);
