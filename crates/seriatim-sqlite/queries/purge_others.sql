-- How many tables and views of others are in the file.
select count(*) from sqlite_master where type in ('table', 'view') and name not glob 'sqlite_*' and name not glob 'seriatim_*'
