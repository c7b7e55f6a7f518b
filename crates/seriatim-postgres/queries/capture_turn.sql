-- Captures are made and taken out one at a time, until the transaction ends.
select pg_advisory_xact_lock(hashtextextended('seriatim.capture', 0))
