-- Forgets all leases of a feed, locking them in their order.
with held as materialized (
    select feed, partition from seriatim.lease where feed = $1 order by feed, partition for update
)
delete from seriatim.lease using held where lease.feed = held.feed and lease.partition = held.partition
