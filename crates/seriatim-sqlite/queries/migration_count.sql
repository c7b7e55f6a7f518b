-- How many migrations of any component there are.
select count(*) from seriatim_version
