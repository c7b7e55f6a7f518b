-- The present, by the clock of the database.
select clock_timestamp()
