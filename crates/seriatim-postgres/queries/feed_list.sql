-- All feeds, by name.
select name from seriatim.feed order by name
