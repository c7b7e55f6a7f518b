-- Counts a host's heartbeat up, notes which feeds it runs now, and moves the versions of its leases, if its name is still its
-- own. Answers for each lease that is still held: its place in the list, and who asked for it.
with beat as materialized (
    update seriatim.host set beat = beat + 1, seen_at = clock_timestamp(), feeds = $3
    where name = $1 and session = $2
    returning 1
), held as (
    select * from unnest($4::text[], $5::integer[], $6::bigint[]) with ordinality held (feed, partition, epoch, place)
)
update seriatim.lease
set version = version + 1
from held
where lease.feed = held.feed and lease.partition = held.partition and lease.epoch = held.epoch and lease.session = $2
    and exists (select 1 from beat)
returning held.place, lease.hand_over_to
