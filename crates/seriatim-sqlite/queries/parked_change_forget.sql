-- Forgets all changes kept for a feed.
delete from seriatim_parked_change where feed = ?1
