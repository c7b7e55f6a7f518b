-- The parked objects of a feed, of one partition or (null) of all, oldest first.
select partition, key, error, attempts, retrying, since, kept.changes, kept.bytes, next_try
from seriatim.parked
cross join lateral (
    select count(*) as changes, coalesce(sum(octet_length(change)), 0)::bigint as bytes
    from seriatim.parked_change
    where parked = parked.seq
) kept
where feed = $1 and ($2::integer is null or partition = $2)
order by seq
