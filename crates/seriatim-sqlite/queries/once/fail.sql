-- Gives a claim back that is still this attempt's.
delete from seriatim_once where processor = ?1 and id = ?2 and attempt = ?3 and state <> 'completed'
