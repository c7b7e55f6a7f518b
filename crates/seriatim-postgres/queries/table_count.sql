-- How many rows there are.
select count(*) from {table}
