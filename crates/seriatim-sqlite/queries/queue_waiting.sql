-- How many events of an object wait to be stamped.
select count(*) from seriatim_queue_event where queue = ?1 and object = ?2 and id is null
