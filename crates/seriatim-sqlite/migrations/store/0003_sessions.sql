-- One sign of life for all leases of a host: the beat of its session, with the expiry by which others judge it.
alter table seriatim_host add column expire integer;     -- milliseconds; null for a host of an older version
alter table seriatim_host add column progress integer not null default 0;   -- moves when the host has written checkpoints

-- Moves whenever a lease comes, goes, changes hands or is asked for, or something is asked for in its partition.
alter table seriatim_store add column moved integer not null default 0;

-- Hosts of an older version would not see this sign of life, and would take the leases of those that live.
create trigger seriatim_host_is_of_this_version before insert on seriatim_host when new.expire is null
begin
    select raise(abort, 'this store is used by a newer version of Seriatim: update the program that this host runs');
end;
