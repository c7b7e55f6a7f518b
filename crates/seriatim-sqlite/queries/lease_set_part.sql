-- Says which part of its feed a lease is on from now on; nobody takes it who has seen it before.
update seriatim_lease set part = ?3, version = version + 1 where feed = ?1 and partition = ?2
