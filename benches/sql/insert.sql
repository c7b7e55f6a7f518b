-- So many orders.
with recursive n (i) as (select 1 union all select i + 1 from n where i < ?1)
insert into orders (customer, amount, note) select 'customer ' || (i % 1000), i % 9973, 'note ' || i from n
