-- All consumers, with what is watched for each.
select c.feed, c.store, k.kind, k.relation::regclass::text, (extract(epoch from c.seen_at) * 1000000)::bigint
from seriatim.consumer c join seriatim.capture k on k.id = c.capture
order by c.feed, c.store
