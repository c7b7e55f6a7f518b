-- The objects with events, held or parked, by name.
select object from seriatim.queue_object where queue = $1 and (session is not null or parked_error is not null)
union
select object from seriatim.queue_event where queue = $1
order by object
