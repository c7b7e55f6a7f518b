-- Completes a run that is still this attempt's.
update seriatim_once
set state = 'completed', completed_at = ?4, expires_on = ?5, removable_on = ?5, result = ?6, not_kept = ?7
where processor = ?1 and id = ?2 and attempt = ?3 and state <> 'completed'
