-- Gives the store its identity, unless it has one.
insert or ignore into seriatim_store (only_row, id) values (1, ?1)
