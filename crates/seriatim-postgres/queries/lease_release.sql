-- Sets leases free that are still their owners' (session and epoch), for the host they are kept for, if any; their positions stay. Tells
-- everybody.
with held as materialized (
    select lease.feed, lease.partition, released.keep_for
    from unnest($1::text[], $2::integer[], $3::text[], $4::bigint[], $5::text[])
        released (feed, partition, session, epoch, keep_for)
    join seriatim.lease on lease.feed = released.feed and lease.partition = released.partition
    where lease.session = released.session and lease.epoch = released.epoch
    order by lease.feed, lease.partition
    for no key update of lease
), freed as (
    update seriatim.lease
    set owner = null, session = null, version = version + 1, hand_over_to = held.keep_for
    from held
    where lease.feed = held.feed and lease.partition = held.partition
    returning 1
)
update seriatim.lease_mark set moved = moved + 1 where exists (select 1 from freed) returning pg_notify($6, 'released')::text
