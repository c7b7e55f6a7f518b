-- A sign of life of a run that is still this attempt's.
update seriatim.once
set state = 'running', beat = beat + 1, beat_at = clock_timestamp(), beat_in = pg_postmaster_start_time(),
    removable_on = ceil(extract(epoch from clock_timestamp()) + $4::bigint / 1000.0)::bigint
where processor = $1 and id = $2 and attempt = $3 and state <> 'completed'
returning true
