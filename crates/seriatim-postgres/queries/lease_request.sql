-- Notes who ($5) wants leases that are as they were seen, unless somebody else has asked, and tells their owners. Returns the places
-- in the list of those that were asked for.
with held as materialized (
    select lease.feed, lease.partition, seen.place
    from unnest($1::text[], $2::integer[], $3::bigint[], $4::text[])
        with ordinality seen (feed, partition, epoch, session, place)
    join seriatim.lease on lease.feed = seen.feed and lease.partition = seen.partition
    where lease.epoch = seen.epoch and lease.session is not distinct from seen.session
        and (lease.hand_over_to is null or lease.hand_over_to = $5)
    order by lease.feed, lease.partition
    for no key update of lease
), asked as (
    update seriatim.lease
    set hand_over_to = $5
    from held
    where lease.feed = held.feed and lease.partition = held.partition
    returning held.place
), moved as (
    update seriatim.lease_mark set moved = moved + 1 where exists (select 1 from asked) returning pg_notify($6, 'asked')::text
)
select place from asked
