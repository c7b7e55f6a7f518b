-- What was dropped, the last first.
select object, first_id, last_id, events, error, reason, at from seriatim_queue_discarded
where queue = ?1 order by seq desc limit ?2
