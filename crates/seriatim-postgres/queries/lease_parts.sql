-- The leases of a feed, by partition: which part each is on, and whether it has an owner. They stay so while this transaction runs.
select partition, part, session is not null from seriatim.lease where feed = $1 order by partition for update
