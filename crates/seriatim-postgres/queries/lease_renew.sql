-- Counts a host's heartbeat up, notes which feeds it runs now and what keeps it from it, and moves the versions of its leases, if
-- its name is still its own. Answers for each lease that is still held: its place in the list, and who asked for it.
-- Whoever locks several leases does so in their order, so that nobody waits for each other.
with beat as materialized (
    update seriatim.host set beat = beat + 1, seen_at = clock_timestamp(), feeds = $3, troubles = $7
    where name = $1 and session = $2
    returning 1
), held as materialized (
    select lease.feed, lease.partition, renewed.place
    from unnest($4::text[], $5::integer[], $6::bigint[]) with ordinality renewed (feed, partition, epoch, place)
    join seriatim.lease
        on lease.feed = renewed.feed and lease.partition = renewed.partition and lease.epoch = renewed.epoch
    where lease.session = $2 and exists (select 1 from beat)
    order by lease.feed, lease.partition
    for no key update of lease
)
update seriatim.lease
set version = version + 1
from held
where lease.feed = held.feed and lease.partition = held.partition
returning held.place, lease.hand_over_to
