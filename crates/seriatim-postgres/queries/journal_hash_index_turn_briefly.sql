-- The same until the transaction ends.
select pg_try_advisory_xact_lock(hashtextextended('seriatim.journal_hash_index', $1))
