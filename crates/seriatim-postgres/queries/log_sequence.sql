-- Gives numbers to what is committed in a log, so many at most; null when another sequencer is at it.
select seriatim.log_sequence($1, $2)
