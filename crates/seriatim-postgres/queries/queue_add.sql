-- Adds events to an object; answers with how many wait already when there is no room.
select seriatim.queue_add($1, $2, $3, $4)
