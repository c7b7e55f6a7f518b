-- Whether the books are in this database.
select to_regclass($1) is not null
