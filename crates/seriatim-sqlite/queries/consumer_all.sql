-- All consumers, with what is watched for each.
select c.feed, c.store, k.kind, k.table_name, c.seen_at from seriatim_consumer c join seriatim_capture k on k.id = c.capture
order by c.feed, c.store
