-- The held event of an object that follows another one, or none.
select object, id, prev, body from seriatim.gate_held
where gate = $1 and object = $2 and prev is not distinct from $3 order by id limit 1
