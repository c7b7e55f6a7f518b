-- Whether the table of versions is there.
select exists (select 1 from sqlite_schema where type = 'table' and name = 'seriatim_version')
