-- Drops one change ($2) of a parked object, or (null) all of them, and remembers that with the reason. Returns how many.
with dropped as (
    delete from seriatim.parked_change
    where parked = $1 and ($2::bigint is null or change_id = $2)
    returning seq, change_id
)
insert into seriatim.discarded (feed, partition, key, first_id, last_id, changes, error, reason)
select feed, partition, key,
    (select change_id from dropped order by seq limit 1),
    (select change_id from dropped order by seq desc limit 1),
    (select count(*) from dropped),
    error, $3
from seriatim.parked
where seq = $1
returning changes
