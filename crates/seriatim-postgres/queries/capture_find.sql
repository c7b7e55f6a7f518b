-- A capture by its table and key.
select id, relation, key, known, ring, floor from seriatim.capture where kind = $1 and relation = $2 and key = $3
