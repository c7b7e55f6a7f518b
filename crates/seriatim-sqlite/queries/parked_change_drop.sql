-- Forgets the changes that wait behind the parked objects of a partition.
delete from seriatim_parked_change
where feed = ?1 and object in (select object from seriatim_parked where feed = ?1 and partition = ?2)
