-- Writes a capture down.
insert into seriatim.capture (kind, relation, key, known, writer) values ($1, $2, $3, $4, $5) returning id
