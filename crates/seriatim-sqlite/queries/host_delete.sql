-- Takes a session's host out.
delete from seriatim_host where session = ?1
