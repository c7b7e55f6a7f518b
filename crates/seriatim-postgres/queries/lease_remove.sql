-- Removes leases of a feed.
delete from seriatim.lease where feed = $1 and partition = any ($2::integer[])
