-- Sets the position of a lease that is exactly as it was seen ($3 epoch, $4 session, $6 version) and raises its epoch, so that no owner of before can write over it.
update seriatim.lease
set owner = null, session = null, epoch = epoch + 1, version = version + 1, position = $5, done_above = null, hand_over_to = null
where feed = $1 and partition = $2 and epoch = $3 and session is not distinct from $4 and version = $6
