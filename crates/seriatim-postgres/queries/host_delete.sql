-- Takes a session's host out.
delete from seriatim.host where session = $1
