-- A sign of life of a run that is still this attempt's.
update seriatim_once
set state = 'running', beat = beat + 1, beat_boot = ?4, beat_at = ?5, removable_on = ?6
where processor = ?1 and id = ?2 and attempt = ?3 and state <> 'completed'
