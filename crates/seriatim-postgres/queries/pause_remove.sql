-- Lets a feed go on, and returns a row if it was paused.
delete from seriatim.paused where feed = $1 returning 1
