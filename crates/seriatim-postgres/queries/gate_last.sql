-- The last event of an object that was applied.
select last_id from seriatim.gate where gate = $1 and object = $2
