-- Orders with these ids change.
update orders set amount = amount + 1 where id between $1::bigint and $2::bigint
