-- So many orders, one in each millisecond since 1970.
insert into orders (id, customer, amount, note, updated_at)
select i, 'customer ' || (i % 1000), i % 9973, 'note ' || i, to_timestamp(i / 1000.0) from generate_series(1, $1::bigint) i
