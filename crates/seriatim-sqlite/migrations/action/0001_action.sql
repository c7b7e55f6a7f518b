-- What people have done.
create table seriatim_action (
    id integer primary key autoincrement,
    at integer not null,                -- in ms
    text text not null
);
