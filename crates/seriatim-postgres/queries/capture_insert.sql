-- Writes a capture down.
insert into seriatim.capture (kind, relation, key, known) values ($1, $2, $3, $4) returning id
