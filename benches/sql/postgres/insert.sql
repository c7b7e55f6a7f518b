-- Orders with these ids.
insert into orders (id, customer, amount, note)
select i, 'customer ' || i % 1000, i % 9973, 'note ' || i from generate_series($1::bigint, $2::bigint) i
