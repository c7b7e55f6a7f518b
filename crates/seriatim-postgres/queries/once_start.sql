-- Claims a signal that is not there, whose completion has expired, or whose run is exactly as it was seen; answers with the number.
insert into seriatim.once as signal
    (processor, id, state, attempt, number, beat, beat_at, beat_in, started_at, limit_ms, removable_on)
values ($1, $2, 'running', $3, 1, 0, clock_timestamp(), pg_postmaster_start_time(), clock_timestamp(), $4,
    ceil(extract(epoch from clock_timestamp()) + $5::bigint / 1000.0)::bigint)
on conflict (processor, id) do update
set state = 'running', attempt = excluded.attempt, number = signal.number + 1, beat = 0, beat_at = clock_timestamp(),
    beat_in = excluded.beat_in, started_at = clock_timestamp(), completed_at = null, expires_on = null,
    limit_ms = excluded.limit_ms, removable_on = excluded.removable_on, result = null, not_kept = null
where (signal.state = 'completed' and signal.expires_on <= floor(extract(epoch from statement_timestamp()))::bigint)
   or (signal.state = 'running' and signal.attempt = $6 and signal.beat = $7)
returning number
