-- Forgets lower notes of the same kind.
delete from sqlite_sequence where name = 'seriatim_drawn' and seq <= ?1
