-- Takes a worker out, if it is as it was seen.
select seriatim.queue_remove($1, $2, $3, $4)
