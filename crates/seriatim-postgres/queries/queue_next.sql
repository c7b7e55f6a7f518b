-- Records what was sent, and asks for more.
select answer, last_id, id, at, body from seriatim.queue_next($1, $2, $3, $4, $5, $6)
