-- The columns of a table in order, generated ones included.
select name, type, "notnull", dflt_value, pk from pragma_table_xinfo(?1) where hidden <> 1 order by cid
