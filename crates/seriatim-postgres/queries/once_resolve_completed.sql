-- Completes an unknown run that is exactly as it was seen. The beat tells this from the run's own completion.
update seriatim.once
set state = 'completed', beat = beat + 1, completed_at = clock_timestamp(), result = $6, not_kept = $7,
    expires_on = ceil(extract(epoch from clock_timestamp()) + $5::bigint / 1000.0)::bigint,
    removable_on = ceil(extract(epoch from clock_timestamp()) + $5::bigint / 1000.0)::bigint
where processor = $1 and id = $2 and attempt = $3 and beat = $4 and state = 'unknown'
returning true
