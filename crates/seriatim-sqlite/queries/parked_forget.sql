-- Forgets all parked objects of a feed.
delete from seriatim_parked where feed = ?1
