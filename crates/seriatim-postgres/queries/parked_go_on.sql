-- After a discard: what is left of the object is tried again, one of which nothing is left is gone, and the owner is told.
with gone as (
    delete from seriatim.parked
    where seq = $1 and not exists (select 1 from seriatim.parked_change where parked = $1)
), rest as (
    update seriatim.parked
    set retrying = true, attempts = 0
    where seq = $1 and exists (select 1 from seriatim.parked_change where parked = $1)
), told as (
    update seriatim.lease set asked = asked + 1 where feed = $2 and partition = any ($3::integer[])
)
update seriatim.lease_mark set moved = moved + 1 returning pg_notify($4, 'asked')::text
