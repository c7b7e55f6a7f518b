-- Some of the parked objects of a feed, after one of them, in the order of their names.
select partition, key, error, attempts, since, retrying,
    (select count(*) from seriatim_parked_change c where c.feed = p.feed and c.object = p.object),
    (select cast(total(octet_length(change)) as integer) from seriatim_parked_change c where c.feed = p.feed and c.object = p.object),
    next_try,
    object
from seriatim_parked p
where feed = ?1 and object > ?2
order by object
limit ?3
