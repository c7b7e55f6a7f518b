-- Forgets all leases of a feed.
delete from seriatim.lease where feed = $1
