-- Notes how far a consumer is, and that it is alive; writes nothing when both are known.
update seriatim.consumer set consumed = $2, seen_at = clock_timestamp()
where id = $1 and (consumed <> $2 or abs(extract(epoch from clock_timestamp() - seen_at)) > 10)
