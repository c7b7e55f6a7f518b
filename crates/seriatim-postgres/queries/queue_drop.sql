-- Removes a queue, unless events wait in it that are not to be lost.
select events, objects, seconds, was_there from seriatim.queue_drop($1, $2)
