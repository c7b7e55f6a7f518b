-- What people have done.
create table seriatim.action (
    id bigint generated always as identity primary key,
    at timestamptz not null default clock_timestamp(),
    text text not null
);
