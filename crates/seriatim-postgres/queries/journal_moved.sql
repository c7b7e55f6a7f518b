-- The newest tick of each journal (or of $1), and whether something was committed that it did not see and an earlier look had not
-- looked for either: its snapshot ($2), the journals that had nothing new then ($3), their newest ticks ($4), and whether nothing was
-- left to be ticked ($5).
select seen::text, journals, newest, moved from seriatim.journal_moved($1, $2::text::pg_snapshot, $3, $4, $5)
