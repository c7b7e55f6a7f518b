-- Has an effect of feed $1 run alone, once those that run are done.
select pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('seriatim.effect ' || $1, 0))
