-- Whether an object is held by this session under this epoch.
select exists (
    select 1 from seriatim_queue_object where queue = ?1 and object = ?2 and session = ?3 and epoch = ?4
)
