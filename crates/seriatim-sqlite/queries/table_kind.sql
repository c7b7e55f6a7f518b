-- What the thing of this name is, by its own spelling of the name.
select name, type, wr from pragma_table_list where schema = 'main' and name = ?1 collate nocase
