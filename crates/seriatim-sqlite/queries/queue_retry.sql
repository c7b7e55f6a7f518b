-- Takes a parked object back.
update seriatim_queue_object set parked_error = null, parked_attempts = null, parked_since = null
where queue = ?1 and object = ?2 and parked_error is not null
