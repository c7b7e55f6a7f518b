-- Takes a host of an older version out that has not beaten since it was seen.
delete from seriatim.host where session = $1 and beat = $2 and expire is null
