-- Which migrations of which part this schema has.
create table if not exists seriatim.version (
    component text not null,
    version integer not null,
    primary key (component, version)
);
