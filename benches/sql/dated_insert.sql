-- So many orders, one in each millisecond since 1970.
with recursive n (i) as (select 1 union all select i + 1 from n where i < ?1)
insert into orders (customer, amount, note, updated_at) select 'customer ' || (i % 1000), i % 9973, 'note ' || i, i from n
