-- Notes that the leases of a feed say themselves which parts they are on. First of all: nobody adds leases to it meanwhile.
update seriatim.feed set partitions = 0 where name = $1
