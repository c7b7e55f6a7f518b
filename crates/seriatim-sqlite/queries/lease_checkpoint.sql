-- Moves the position of a lease, with what is handled beyond it, if this session and epoch still own it; that is a sign of life too.
update seriatim_lease
set position = ?5, done_above = ?6, version = version + 1
where feed = ?1 and partition = ?2 and session = ?3 and epoch = ?4
