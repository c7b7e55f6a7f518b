-- The triggers that are not ours, with their tables, the oldest first.
select name, tbl_name, sql from sqlite_master where type = 'trigger' and name not like 'seriatim\_%' escape '\' order by rowid
