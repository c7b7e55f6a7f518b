-- Removes a lease.
delete from seriatim_lease where feed = ?1 and partition = ?2
