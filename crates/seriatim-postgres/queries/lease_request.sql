-- Notes who wants a lease that is as it was seen, unless somebody else has asked, and tells its owner.
with asked as (
    update seriatim.lease
    set hand_over_to = $5
    where feed = $1 and partition = $2 and epoch = $3 and session is not distinct from $4
        and (hand_over_to is null or hand_over_to = $5)
    returning 1
)
select pg_notify($6, 'asked')::text from asked
