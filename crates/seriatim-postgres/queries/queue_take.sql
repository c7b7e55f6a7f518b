-- Takes an object.
select answer, object, epoch, last_id, id, at, body from seriatim.queue_take($1, $2, $3, $4)
