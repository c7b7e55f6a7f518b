-- Whether this attempt has completed.
select exists (
    select 1 from seriatim_once where processor = ?1 and id = ?2 and attempt = ?3 and state = 'completed'
)
