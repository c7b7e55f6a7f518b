-- Forgets all leases of a feed.
delete from seriatim_lease where feed = ?1
