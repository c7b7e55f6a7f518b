-- The parked objects of a feed, of one partition or (null) of all, oldest first.
select partition, key, error, attempts, since, (select count(*) from seriatim.parked_change where parked = parked.seq)
from seriatim.parked
where feed = $1 and ($2::integer is null or partition = $2)
order by seq
