-- Claims a signal that is not there, whose completion has expired, or whose run is exactly as it was seen; answers with the number.
insert into seriatim_once
    (processor, id, state, attempt, number, beat, beat_boot, beat_at, started_at, limit_ms, removable_ms, removable_on)
values (?1, ?2, 'running', ?3, 1, 0, ?4, ?5, ?6, ?7, ?8, ?9)
on conflict (processor, id) do update
set state = 'running', attempt = excluded.attempt, number = number + 1, beat = 0, beat_boot = excluded.beat_boot,
    beat_at = excluded.beat_at, started_at = excluded.started_at, completed_at = null, expires_on = null,
    limit_ms = excluded.limit_ms, removable_ms = excluded.removable_ms, removable_on = excluded.removable_on,
    result = null, not_kept = null
where (state = 'completed' and expires_on <= ?10) or (state = 'running' and attempt = ?11 and beat = ?12)
returning number
