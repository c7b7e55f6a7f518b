-- Gives an object up.
select seriatim.queue_release($1, $2, $3, $4, $5)
