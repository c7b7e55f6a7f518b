-- Locks the lease of a partition ($2) and those of the partitions in which these objects are parked, in order: whoever has a lease's row is
-- alone with what is parked there.
select partition
from seriatim.lease
where feed = $1 and (partition = $2 or partition in (
    select partition from seriatim.parked where feed = $1 and sha256(object) = any (select sha256(o) from unnest($3::bytea[]) o)
))
order by partition
for no key update
