-- The index that finds a row's changes is of no use any more; nobody waits for it to go.
set local lock_timeout = '100ms';
drop index if exists seriatim.journal_N_R_hash
