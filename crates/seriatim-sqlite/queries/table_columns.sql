-- The columns of a table in order, generated ones included. Outside STRICT tables, ANY is a type like any other and means NUMERIC.
select name, iif(upper(type) = 'ANY' and not (select max(strict) from pragma_table_list where schema = 'main' and name = ?1 collate nocase), 'NUMERIC', type), "notnull", dflt_value, pk, hidden in (2, 3) from pragma_table_xinfo(?1) where hidden <> 1 order by cid
