-- What a session holds.
select object, epoch from seriatim.queue_object where queue = $1 and session = $2 order by epoch
