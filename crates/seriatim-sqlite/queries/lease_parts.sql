-- The leases of a feed, by partition: which part each is on, and whether it has an owner.
select partition, part, session is not null from seriatim_lease where feed = ?1 order by partition
