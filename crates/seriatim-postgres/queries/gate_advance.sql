-- Moves an object on.
select seriatim.gate_advance($1, $2, $3, $4)
