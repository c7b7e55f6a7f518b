-- Makes a run that is exactly as it was seen unknown; it is kept until somebody resolves it.
update seriatim_once
set state = 'unknown', removable_on = null
where processor = ?1 and id = ?2 and attempt = ?3 and beat = ?4 and state in ('running', 'unknown')
