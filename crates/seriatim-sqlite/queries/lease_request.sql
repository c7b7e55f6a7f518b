-- Notes who wants a lease.
update seriatim_lease set hand_over_to = ?3 where feed = ?1 and partition = ?2
