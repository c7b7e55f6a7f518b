-- Ticks those of these journals in which something happened; null when another sequencer is at it.
select seriatim.journal_tick($1::bigint[])
