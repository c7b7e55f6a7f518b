-- Forgets a feed's number of partitions.
delete from seriatim.feed where name = $1
