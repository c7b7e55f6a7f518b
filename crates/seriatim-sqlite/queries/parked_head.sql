-- What a discard of a parked object depends on: its partition, its first change, and whether its owner may be trying it.
select p.partition, p.key, p.error, c.change_id, p.retrying and l.session is not null
from seriatim_parked p
join seriatim_parked_change c on c.feed = p.feed and c.object = p.object
left join seriatim_lease l on l.feed = p.feed and l.partition = p.partition
where p.feed = ?1 and p.object = ?2
order by c.seq
limit 1
