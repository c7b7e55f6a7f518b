-- One at a time makes or drops the indexes of a journal. False while somebody else does; his connection's end frees it.
select pg_try_advisory_lock(hashtextextended('seriatim.journal_hash_index', $1))
