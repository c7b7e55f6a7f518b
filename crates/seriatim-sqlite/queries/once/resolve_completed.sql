-- Completes an unknown run that is exactly as it was seen. The beat tells this from the run's own completion.
update seriatim_once
set state = 'completed', beat = beat + 1, completed_at = ?5, expires_on = ?6, removable_on = ?6, result = ?7, not_kept = ?8
where processor = ?1 and id = ?2 and attempt = ?3 and beat = ?4 and state = 'unknown'
