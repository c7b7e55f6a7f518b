-- The columns of a table in order, generated ones included, with their place in the primary key (0: not in it).
select name, pk from pragma_table_xinfo(?1) where hidden <> 1 order by cid
