-- Has an effect of feed $1 run beside others, unless one runs alone.
select pg_catalog.pg_advisory_xact_lock_shared(pg_catalog.hashtextextended('seriatim.effect ' || $1, 0))
