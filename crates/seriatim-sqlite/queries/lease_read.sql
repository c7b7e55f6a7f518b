-- One lease, as it is now.
select session, epoch, position, hand_over_to, version, done_above, part from seriatim_lease where feed = ?1 and partition = ?2
