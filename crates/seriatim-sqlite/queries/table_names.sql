-- The tables that a user may have meant.
select name from pragma_table_list where schema = 'main' and type = 'table' and name not like 'sqlite\_%' escape '\' and name not like 'seriatim\_%' escape '\' order by name
