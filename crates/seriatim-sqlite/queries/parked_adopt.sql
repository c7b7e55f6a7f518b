-- Makes a parked object that of another partition.
update seriatim_parked set partition = ?3 where feed = ?1 and object = ?2
