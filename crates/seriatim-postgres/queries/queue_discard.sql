-- Drops events of a parked object.
select seriatim.queue_discard($1, $2, $3, $4, $5)
