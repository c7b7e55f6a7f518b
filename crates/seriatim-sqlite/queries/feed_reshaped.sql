-- Notes that the leases of a feed say themselves which parts they are on.
update seriatim_feed set partitions = 0 where name = ?1
