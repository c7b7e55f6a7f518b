-- Forgets all discards of a feed.
delete from seriatim_discarded where feed = ?1
