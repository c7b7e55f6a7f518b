-- One parked object.
select partition, key, error, attempts, since, retrying,
    (select count(*) from seriatim_parked_change c where c.feed = p.feed and c.object = p.object),
    (select cast(total(octet_length(change)) as integer) from seriatim_parked_change c where c.feed = p.feed and c.object = p.object),
    next_try
from seriatim_parked p
where feed = ?1 and object = ?2
