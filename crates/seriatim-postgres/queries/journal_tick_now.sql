-- Makes a tick of a journal now.
select seriatim.journal_tick_now($1)
