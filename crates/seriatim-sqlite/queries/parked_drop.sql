-- Forgets the parked objects of a partition.
delete from seriatim_parked where feed = ?1 and partition = ?2
