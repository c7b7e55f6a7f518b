-- Sets a lease free, if this session and epoch still own it; its position stays. Tells everybody.
with released as (
    update seriatim.lease
    set owner = null, session = null, version = version + 1, hand_over_to = $5
    where feed = $1 and partition = $2 and session = $3 and epoch = $4
    returning 1
)
select pg_notify($6, 'released')::text from released
