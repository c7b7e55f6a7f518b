-- The consumers of a feed ($1) whose captures are of this kind ($2) and this table ($3).
select c.store, c.start, c.since, c.consumed, (extract(epoch from c.seen_at) * 1000000)::bigint
from seriatim.consumer c join seriatim.capture k on k.id = c.capture
where c.feed = $1 and k.kind = $2 and k.relation = $3
