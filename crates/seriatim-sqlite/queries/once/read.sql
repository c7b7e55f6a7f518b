-- All that is known about a signal.
select processor, id, state, attempt, number, beat, beat_boot, beat_at, started_at, completed_at, expires_on, limit_ms, result, not_kept
from seriatim_once
where processor = ?1 and id = ?2
