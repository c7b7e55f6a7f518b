-- The index that finds a row's changes, made at once: writers wait behind whoever waits for a lock, so not for long.
set local lock_timeout = '3s';
create index if not exists journal_N_R_hash on seriatim.journal_N_R (hash, id)
