-- How many partitions a feed has.
select partitions from seriatim_feed where name = ?1
