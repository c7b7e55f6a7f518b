-- The parked objects of a feed, of one partition or (null) of all, oldest first.
select partition, key, error, attempts, since, retrying, changes.waiting, changes.bytes
from seriatim_parked p
join (
    select object, count(*) as waiting, sum(length(change)) as bytes
    from seriatim_parked_change
    where feed = ?1
    group by object
) changes on changes.object = p.object
where feed = ?1 and (?2 is null or partition = ?2)
order by seq
