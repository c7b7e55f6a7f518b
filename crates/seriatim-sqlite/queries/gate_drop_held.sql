-- Forgets what was held of an object up to an event.
delete from seriatim_gate_held where gate = ?1 and object = ?2 and id <= ?3
