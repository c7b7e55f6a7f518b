-- Sets an object free; with events left, it is queued before all others.
update seriatim_queue_object
set worker = null, session = null, epoch = null, queued = case
    when exists (select 1 from seriatim_queue_event e where e.queue = ?1 and e.object = ?2)
    then (select coalesce(min(queued), 1) - 1 from seriatim_queue_object where queue = ?1 and queued is not null)
end
where queue = ?1 and object = ?2
