-- How many journals a relay fills, and how many of them are of this table.
select count(*), count(*) filter (where c.relation = $1) from seriatim.capture c where c.writer = 'relay'
