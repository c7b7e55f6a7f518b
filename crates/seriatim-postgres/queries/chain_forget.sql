-- Forgets a feed's chain.
delete from seriatim.chain where feed = $1
