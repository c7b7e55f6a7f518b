-- Parks objects unless they are parked already: no change is lost although its object's failed one is not there.
insert into seriatim.parked (feed, partition, object, key, error, attempts)
select $1, $2, object, key, 'waits behind an earlier change', 0
from unnest($3::bytea[], $4::text[]) with ordinality parked (object, key, place)
order by place
on conflict (feed, sha256(object)) do nothing
