-- A consumer by the id of its registration.
select id, capture, start, since, existing, consumed, (extract(epoch from seen_at) * 1000000)::bigint from seriatim.consumer where id = $1
