-- Gives a lease to a new owner under the next epoch.
update seriatim_lease
set owner = ?3, session = ?4, epoch = epoch + 1, version = version + 1, hand_over_to = null
where feed = ?1 and partition = ?2
