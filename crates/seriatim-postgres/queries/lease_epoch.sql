-- The epoch that a lease has now.
select epoch from seriatim.lease where feed = $1 and partition = $2
