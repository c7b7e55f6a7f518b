-- The statement that made a table.
select sql from sqlite_master where type = 'table' and name = ?1 collate nocase
