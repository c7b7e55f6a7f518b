-- Keeps an event that came too early, once.
insert or ignore into seriatim_gate_held (gate, object, id, prev, body) values (?1, ?2, ?3, ?4, ?5)
