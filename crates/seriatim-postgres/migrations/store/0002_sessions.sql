-- One sign of life for all leases of a host: the beat of its session, with the expiry by which others judge it.
alter table seriatim.host add column expire bigint;    -- milliseconds; null for a host of an older version
alter table seriatim.host add column progress bigint not null default 0;   -- moves when the host has written checkpoints

-- Moves whenever a lease comes, goes, changes hands or is asked for, or something is asked for in its partition. Whoever writes
-- it has written all else before.
create table seriatim.lease_mark (
    only_row boolean primary key default true check (only_row),
    moved bigint not null
) with (fillfactor = 50, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0);

insert into seriatim.lease_mark (moved) values (0);

-- Hosts of an older version would not see this sign of life, and would take the leases of those that live.
create function seriatim.host_is_of_an_older_version() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    raise exception 'this store is used by a newer version of Seriatim: update the program that this host runs';
end
$$;
revoke all on function seriatim.host_is_of_an_older_version() from public;

create trigger host_is_of_this_version before insert on seriatim.host
for each row when (new.expire is null) execute function seriatim.host_is_of_an_older_version();
