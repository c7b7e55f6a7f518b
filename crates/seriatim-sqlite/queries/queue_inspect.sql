-- An object as it is.
select o.queued is not null, o.last_id, o.worker, o.session, o.epoch, o.parked_error, o.parked_attempts, o.parked_since,
    (select session from seriatim_queue_worker w where w.queue = o.queue and w.name = o.worker),
    (select last_id from seriatim_queue q where q.name = o.queue),
    (select count(*) from seriatim_queue_event e where e.queue = o.queue and e.object = o.object and e.id is null)
from seriatim_queue_object o
where o.queue = ?1 and o.object = ?2
