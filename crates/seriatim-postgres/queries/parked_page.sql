-- Some of the parked objects of a feed, after one of them (its hash in hex), in the order of the hashes by which they are found.
select partition, key, error, attempts, retrying, since, kept.changes, kept.bytes, next_try, encode(sha256(object), 'hex')
from seriatim.parked
cross join lateral (
    select count(*) as changes, coalesce(sum(octet_length(change)), 0)::bigint as bytes
    from seriatim.parked_change
    where parked = parked.seq
) kept
where feed = $1 and sha256(object) > decode($2::text, 'hex')
order by sha256(object)
limit $3::bigint
