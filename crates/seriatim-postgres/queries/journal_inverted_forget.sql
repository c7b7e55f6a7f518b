-- Forgets the signs that statements were noted before those that they are inside of.
delete from seriatim.journal_N where op = '!' or (op = '?' and seriatim.table_nests($1))
