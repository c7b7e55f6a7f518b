-- Sets an object aside.
select seriatim.queue_park($1, $2, $3, $4, $5, $6, $7)
