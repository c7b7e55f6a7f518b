-- The order is gone.
delete from orders where id = ?1
