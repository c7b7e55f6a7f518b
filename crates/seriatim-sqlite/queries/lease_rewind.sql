-- Sets the position of a lease and raises its epoch, so that no owner of before can write over it.
update seriatim_lease
set owner = null, session = null, epoch = epoch + 1, version = version + 1, position = ?3, done_above = null, hand_over_to = null
where feed = ?1 and partition = ?2
