-- How many migrations of a component this schema has.
select coalesce(max(version), 0) from seriatim.version where component = $1
