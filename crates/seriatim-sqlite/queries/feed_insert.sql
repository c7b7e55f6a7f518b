-- Enters a feed with its number of partitions, unless it is there.
insert or ignore into seriatim_feed (name, partitions) values (?1, ?2)
