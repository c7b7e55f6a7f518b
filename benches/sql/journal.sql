-- The name of the one journal in the file.
select name from sqlite_master where type = 'table' and name like 'seriatim_journal_%'
