-- The second bare write: it is completed.
update seriatim_once
set state = 'completed', completed_at = 0, expires_on = 4000000001, removable_on = 4000000001, result = '"done"'
where processor = 'bench' and id = ?1
