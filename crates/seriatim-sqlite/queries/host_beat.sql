-- The sign of life of a session, if it is there.
select beat from seriatim_host where session = ?1
