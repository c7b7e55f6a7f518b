-- Consumers of a log ($1) that nobody has heard of for a minute and that have not passed its last number ($2).
select c.name, extract(epoch from clock_timestamp() - c.seen_at)::float8
from seriatim.log_consumer c
where c.log = $1 and c.seen_at < clock_timestamp() - interval '1 minute'
  and (select min(at) from unnest(c.positions) at) < $2
order by c.name
