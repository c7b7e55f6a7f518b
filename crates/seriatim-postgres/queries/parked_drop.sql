-- Forgets the parked objects of a partition, with what waits behind them.
delete from seriatim.parked where feed = $1 and partition = $2
