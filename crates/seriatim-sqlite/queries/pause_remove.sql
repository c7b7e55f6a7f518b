-- Lets a feed go on.
delete from seriatim_paused where feed = ?1
