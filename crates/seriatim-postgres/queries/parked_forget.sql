-- Forgets all parked objects of a feed, with what waits behind them.
delete from seriatim.parked where feed = $1
