-- The stamped events of an object, in order, and the id of the last one that was sent.
select e.id, e.stamped_at, e.body, o.last_id
from seriatim_queue_event e join seriatim_queue_object o on o.queue = e.queue and o.object = e.object
where e.queue = ?1 and e.object = ?2 and e.id is not null
order by e.id
