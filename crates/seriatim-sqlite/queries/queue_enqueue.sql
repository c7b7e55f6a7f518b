-- Queues an object behind all others, unless it is queued already.
insert into seriatim_queue_object (queue, object, queued)
values (?1, ?2, (select coalesce(max(queued), 0) + 1 from seriatim_queue_object where queue = ?1 and queued is not null))
on conflict (queue, object) do update set queued = coalesce(queued, excluded.queued)
