-- Sets an object aside.
update seriatim_queue_object
set worker = null, session = null, epoch = null, queued = null,
    parked_error = ?3, parked_attempts = ?4, parked_since = cast(unixepoch('subsec') * 1000 as integer)
where queue = ?1 and object = ?2
