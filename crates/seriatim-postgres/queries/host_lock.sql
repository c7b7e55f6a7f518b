-- Takes a host's lock for as long as this connection lives.
select pg_try_advisory_lock($1)
