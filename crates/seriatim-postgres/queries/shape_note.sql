-- Notes the columns that a table has from an id on, unless somebody else has.
insert into seriatim.shape (capture, number, since, columns) values ($1, $2, $3, $4) on conflict do nothing
