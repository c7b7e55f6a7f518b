-- One parked object.
select partition, key, error, attempts, since, retrying, count(*), sum(length(change))
from seriatim_parked p
join seriatim_parked_change c on c.feed = p.feed and c.object = p.object
where p.feed = ?1 and p.object = ?2
group by p.seq
