-- The present, by the clock of the database, in microseconds.
select (extract(epoch from clock_timestamp()) * 1000000)::bigint
