-- How many events are not recorded as sent, of how many objects, and how old the oldest of them is.
select count(*), count(distinct object), extract(epoch from clock_timestamp() - min(at))::float8
from seriatim.queue_event where queue = $1
