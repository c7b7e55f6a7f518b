-- Whether a session is still the one that holds its name.
select exists (select 1 from seriatim_host where name = ?1 and session = ?2)
