-- The parked objects, by name.
select object from seriatim_queue_object where queue = ?1 and parked_error is not null order by object
