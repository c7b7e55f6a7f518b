-- A consumer by its names.
select id, capture, start, since, existing, consumed, (extract(epoch from seen_at) * 1000000)::bigint from seriatim.consumer where feed = $1 and store = $2
