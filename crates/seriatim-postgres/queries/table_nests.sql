-- Whether something may write to the table while a statement on it is not over.
select seriatim.table_nests($1)
