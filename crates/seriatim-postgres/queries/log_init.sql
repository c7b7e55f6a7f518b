-- Makes a log of a table, with deletes.
select seriatim.log_init({table}::regclass, false, true, array[{key}]::text[])
