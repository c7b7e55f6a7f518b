-- Moves the version of a lease, if this session and epoch still own it.
update seriatim_lease
set version = version + 1
where feed = ?1 and partition = ?2 and session = ?3 and epoch = ?4
returning hand_over_to
