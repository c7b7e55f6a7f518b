-- An object as it is at one moment.
select o.last_id, o.worker, o.session, o.epoch, o.parked_error, o.parked_attempts, o.parked_since,
    (select w.session from seriatim.queue_worker w where w.queue = o.queue and w.name = o.worker),
    exists (select from seriatim.queue_waiting w where w.queue = o.queue and w.object = o.object),
    (select count(*) from seriatim.queue_event e
        where e.queue = o.queue and e.object = o.object and e.id > coalesce(o.upto, 0)),
    array(select e.id from seriatim.queue_event e
        where e.queue = o.queue and e.object = o.object and e.id <= o.upto order by e.id),
    (select last_value from seriatim.queue_event_id)
from seriatim.queue_object o
where o.queue = $1 and o.object = $2
