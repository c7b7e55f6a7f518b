-- Whether an object waits for a worker.
select exists (select from seriatim.queue_waiting where queue = $1)
