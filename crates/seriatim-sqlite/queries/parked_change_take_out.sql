-- Takes one change of a parked object out.
delete from seriatim_parked_change where feed = ?1 and object = ?2 and change_id = ?3
