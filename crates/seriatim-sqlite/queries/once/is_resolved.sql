-- Whether an unknown run that was as seen has been resolved as completed.
select exists (
    select 1 from seriatim_once
    where processor = ?1 and id = ?2 and attempt = ?3 and beat = ?4 + 1 and state = 'completed'
)
