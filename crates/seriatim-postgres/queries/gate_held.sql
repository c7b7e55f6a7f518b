-- Everything that is held.
select object, id, prev, body from seriatim.gate_held where gate = $1 order by object, id
