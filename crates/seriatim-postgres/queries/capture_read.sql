-- A capture by its id.
select id, relation, key, known, ring, floor from seriatim.capture where id = $1
