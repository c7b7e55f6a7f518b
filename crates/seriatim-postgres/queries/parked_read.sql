-- One parked object.
select partition, key, error, attempts, retrying, since, kept.changes, kept.bytes, next_try
from seriatim.parked
cross join lateral (
    select count(*) as changes, coalesce(sum(octet_length(change)), 0)::bigint as bytes
    from seriatim.parked_change
    where parked = parked.seq
) kept
where feed = $1 and sha256(object) = sha256($2)
