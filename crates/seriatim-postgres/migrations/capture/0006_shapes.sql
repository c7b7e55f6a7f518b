-- The columns that a watched table has and had, with their types: an image is read as its columns were when it was noted.
create table seriatim.shape (
    capture bigint not null references seriatim.capture on delete cascade,
    number int4 not null,
    -- The changes with a greater id have these columns.
    since bigint not null,
    columns text not null,
    primary key (capture, number)
);
