-- Parks objects, or tells why they are parked now and what is to become of them; each keeps its place and its time.
insert into seriatim.parked (feed, partition, object, key, error, attempts, retrying, next_try)
select $1, $2, object, key, error, attempts, retrying, next_try
from unnest($3::bytea[], $4::text[], $5::text[], $6::integer[], $7::boolean[], $8::timestamptz[])
    with ordinality parked (object, key, error, attempts, retrying, next_try, place)
order by place
on conflict (feed, sha256(object)) do update
set error = excluded.error, attempts = excluded.attempts, retrying = excluded.retrying, next_try = excluded.next_try
