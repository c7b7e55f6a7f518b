-- Gives an unknown run that is exactly as it was seen back.
delete from seriatim_once where processor = ?1 and id = ?2 and attempt = ?3 and beat = ?4 and state = 'unknown'
