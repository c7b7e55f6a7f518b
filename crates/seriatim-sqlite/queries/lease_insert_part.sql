-- Adds a lease on a part of a feed: it never had an owner.
insert into seriatim_lease (feed, partition, epoch, version, position, part) values (?1, ?2, 0, 0, ?3, ?4)
