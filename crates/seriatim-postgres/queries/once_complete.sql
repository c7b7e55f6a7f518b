-- Completes a run that is still this attempt's.
update seriatim.once
set state = 'completed', completed_at = clock_timestamp(), result = $5, not_kept = $6,
    expires_on = ceil(extract(epoch from clock_timestamp()) + $4::bigint / 1000.0)::bigint,
    removable_on = ceil(extract(epoch from clock_timestamp()) + $4::bigint / 1000.0)::bigint
where processor = $1 and id = $2 and attempt = $3 and state <> 'completed'
returning true
