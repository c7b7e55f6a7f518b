-- Which migrations of which part this file has.
create table if not exists seriatim_version (
    component text not null,
    version integer not null,
    primary key (component, version)
) without rowid;
