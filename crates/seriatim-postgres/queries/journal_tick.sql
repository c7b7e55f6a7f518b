-- Ticks every journal in which something happened; null when another sequencer is at it.
select seriatim.journal_tick()
