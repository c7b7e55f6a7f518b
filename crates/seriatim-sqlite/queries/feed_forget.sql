-- Forgets a feed's number of partitions.
delete from seriatim_feed where name = ?1
