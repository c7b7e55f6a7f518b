-- The object that is queued first and that nobody holds and that is not parked.
select object from seriatim_queue_object
where queue = ?1 and queued is not null and session is null and parked_error is null
order by queued limit 1
