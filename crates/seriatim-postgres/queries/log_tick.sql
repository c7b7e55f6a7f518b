-- Gives numbers to what is committed in any log.
select seriatim.log_tick()
