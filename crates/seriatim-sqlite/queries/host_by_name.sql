-- The host that holds a name.
select session, beat from seriatim_host where name = ?1
