-- How many of a capture's triggers are on a table and not disabled.
select count(*) from pg_trigger
where tgrelid = $1 and starts_with(tgname::text, $2) and tgenabled in ('O', 'A') and tgparentid = 0
