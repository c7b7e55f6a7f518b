-- Forgets all discards of a feed.
delete from seriatim.discarded where feed = $1
