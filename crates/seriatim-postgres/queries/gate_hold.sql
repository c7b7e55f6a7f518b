-- Keeps an event that came too early, once.
insert into seriatim.gate_held (gate, object, id, prev, body) values ($1, $2, $3, $4, $5) on conflict do nothing
