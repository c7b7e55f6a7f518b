-- The latest discards of a feed, latest first.
select partition, key, first_id, last_id, changes, error, reason, at
from seriatim.discarded
where feed = $1
order by seq desc
limit $2
