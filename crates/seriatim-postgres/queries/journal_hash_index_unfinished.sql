-- Drops what is left of an index whose making was broken off, while others write.
drop index concurrently if exists seriatim.journal_N_R_hash
