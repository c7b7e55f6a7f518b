-- Parks objects unless they are parked already: no change is lost although its object's failed one is not there, and nothing
-- stands in its way.
insert into seriatim.parked (feed, partition, object, key, error, attempts, retrying)
select $1, $2, object, key, 'waits behind an earlier change', 0, true
from unnest($3::bytea[], $4::text[]) with ordinality parked (object, key, place)
order by place
on conflict (feed, sha256(object)) do nothing
