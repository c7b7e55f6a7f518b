-- Nobody prunes this journal before the transaction ends (see seriatim.journal_prune).
select pg_advisory_xact_lock(hashtextextended('seriatim.journal_prune', $1))
