-- Forgets a feed's chain.
delete from seriatim_chain where feed = ?1
