-- How many events are not recorded as sent, and of how many objects.
select count(*), count(distinct object) from seriatim_queue_event where queue = ?1
