-- Sets all leases of a session free, locking them in their order; their positions stay.
with held as materialized (
    select feed, partition from seriatim.lease where session = $1 order by feed, partition for no key update
)
update seriatim.lease
set owner = null, session = null, version = version + 1
from held
where lease.feed = held.feed and lease.partition = held.partition
