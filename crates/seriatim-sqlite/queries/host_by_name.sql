-- The host that holds a name.
select session, beat, expire from seriatim_host where name = ?1
