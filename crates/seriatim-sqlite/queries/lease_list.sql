-- The leases of a feed, by partition.
select partition, owner, session, epoch, version, position, hand_over_to, asked, part
from seriatim_lease
where feed = ?1
order by partition
