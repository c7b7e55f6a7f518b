-- Queues a parked object again.
select seriatim.queue_retry($1, $2)
