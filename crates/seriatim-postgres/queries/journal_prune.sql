-- Forgets what every consumer has handled. Returns about how many changes are gone.
select seriatim.journal_prune($1, $2)
