-- Everything of Seriatim's in the file, triggers first: a table that is dropped fires none.
select type, name from sqlite_master where type in ('table', 'trigger', 'view') and name glob 'seriatim_*'
order by type <> 'trigger', type <> 'view', name
