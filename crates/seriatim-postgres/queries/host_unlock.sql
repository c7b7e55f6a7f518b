-- Gives a host's lock back.
select pg_advisory_unlock($1)
