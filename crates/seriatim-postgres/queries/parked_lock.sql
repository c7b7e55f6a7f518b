-- Locks the leases of the partitions in which an object ($2) of a feed is parked, or (null) any: whoever has a lease's row is alone
-- with what is parked there. In order, so that nobody waits for each other. Says which have an owner.
select partition, session is not null
from seriatim.lease
where feed = $1 and partition in (
    select partition from seriatim.parked where feed = $1 and ($2::bytea is null or sha256(object) = sha256($2))
)
order by partition
for no key update
