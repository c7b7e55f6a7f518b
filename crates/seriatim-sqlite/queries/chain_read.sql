-- The last change of an object that a checkpoint has passed.
select last_id from seriatim_chain where feed = ?1 and object = ?2
