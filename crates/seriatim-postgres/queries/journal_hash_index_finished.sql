-- Whether an index can be used; false for one whose making was broken off, no row where there is none.
select i.indisvalid from pg_index i where i.indexrelid = to_regclass($1)
