-- All feeds, by name.
select name from seriatim_feed order by name
