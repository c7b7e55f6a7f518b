-- A new order.
insert into orders (customer, amount, revision) values (?1, ?2, 1)
