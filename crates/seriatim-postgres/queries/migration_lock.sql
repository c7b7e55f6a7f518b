-- Makes everybody else who wants to migrate this schema wait until this transaction ends.
select pg_advisory_xact_lock(hashtextextended('seriatim.version', 0))
