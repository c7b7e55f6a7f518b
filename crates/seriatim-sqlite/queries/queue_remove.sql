-- Forgets a queue and its counters.
delete from seriatim_queue where name = ?1
