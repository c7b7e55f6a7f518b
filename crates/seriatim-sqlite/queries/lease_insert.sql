-- Adds a lease that never had an owner, unless it is there.
insert or ignore into seriatim_lease (feed, partition, epoch, version, position) values (?1, ?2, 0, 0, ?3)
