-- Enters a feed with its number of partitions, unless it is there.
insert into seriatim.feed (name, partitions) values ($1, $2) on conflict (name) do nothing
