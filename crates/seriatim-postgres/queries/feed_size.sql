-- How many partitions a feed has, and how many leases.
select partitions, (select count(*) from seriatim.lease where feed = $1) from seriatim.feed where name = $1
