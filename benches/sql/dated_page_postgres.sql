-- The next page after a row.
select * from orders where (updated_at, id) > ($1, $2) order by updated_at, id limit 1000
