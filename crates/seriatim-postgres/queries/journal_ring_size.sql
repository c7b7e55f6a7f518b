-- How large a table of the ring is.
select pg_relation_size(to_regclass($1))
