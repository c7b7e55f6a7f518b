-- Takes the lock that a living sequencer has, for as long as this session lasts, if nobody has it.
select pg_try_advisory_lock(hashtextextended('seriatim.sequencer', 0))
