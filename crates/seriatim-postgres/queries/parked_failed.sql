-- Parks objects, or tells why they are parked now; each keeps its place and its time.
insert into seriatim.parked (feed, partition, object, key, error, attempts)
select $1, $2, object, key, error, attempts
from unnest($3::bytea[], $4::text[], $5::text[], $6::integer[]) with ordinality parked (object, key, error, attempts, place)
order by place
on conflict (feed, sha256(object)) do update set error = excluded.error, attempts = excluded.attempts
