-- The index that finds a row's changes, made while others write.
create index concurrently if not exists journal_N_R_hash on seriatim.journal_N_R (hash, id)
