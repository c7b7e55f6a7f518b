-- Gives leases that are as they were seen to a session ($2) that holds its host's name ($1), under their next epochs. Each was seen with
-- a feed, partition, epoch, session and version, and with the beat of that session: one that has beaten since keeps its lease.
-- The second part is the repetition of a call whose answer was lost.
with me as materialized (
    select 1 from seriatim.host where name = $1 and session = $2 for share
), seen as materialized (
    select *
    from unnest($3::text[], $4::integer[], $5::bigint[], $6::text[], $7::bigint[], $8::bigint[])
        with ordinality seen (feed, partition, epoch, session, version, beat, place)
), owners as materialized (
    -- As they are once nobody else is writing to them: a renewal under way is waited for, and counts.
    select session, beat from seriatim.host where session = any ($6) and session <> $2 for share
), held as materialized (
    select lease.feed, lease.partition, seen.place
    from seen
    join seriatim.lease on lease.feed = seen.feed and lease.partition = seen.partition
    where lease.epoch = seen.epoch and lease.session is not distinct from seen.session and lease.version = seen.version
        and exists (select 1 from me)
        and not exists (
            select 1 from owners where owners.session = seen.session and owners.beat is distinct from seen.beat
        )
    order by lease.feed, lease.partition
    for no key update of lease
), taken as (
    update seriatim.lease
    set owner = $1, session = $2, epoch = epoch + 1, version = version + 1, hand_over_to = null
    from held
    where lease.feed = held.feed and lease.partition = held.partition
    returning held.place, lease.epoch, lease.position, lease.done_above, lease.part
), moved as (
    update seriatim.lease_mark set moved = moved + 1 where exists (select 1 from taken)
)
select place, epoch, position, done_above, part from taken
union all
select seen.place, lease.epoch, lease.position, lease.done_above, lease.part
from seen
join seriatim.lease on lease.feed = seen.feed and lease.partition = seen.partition
where lease.epoch = seen.epoch + 1 and lease.session = $2
    and exists (select 1 from me) and not exists (select 1 from taken where taken.place = seen.place)
