-- Marks a parked object ($2) of a feed, or (null) all of them, to be tried again, in partitions that are locked, and tells their
-- owners. Returns how many, or nothing at all.
with marked as (
    update seriatim.parked
    set retrying = true, attempts = 0
    where feed = $1 and ($2::bytea is null or sha256(object) = sha256($2)) and partition = any ($3::integer[])
    returning partition
), told as (
    update seriatim.lease set asked = asked + 1 where feed = $1 and partition in (select partition from marked)
), moved as (
    update seriatim.lease_mark set moved = moved + 1 where exists (select 1 from marked)
)
select count(*), pg_notify($4, 'asked')::text from marked having count(*) > 0
