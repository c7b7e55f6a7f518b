-- All that is known about a signal. Its time was asked before its row was read, so that a run has stood still for no less.
select processor, id,
    case when state = 'completed' and expires_on <= floor(extract(epoch from statement_timestamp()))::bigint
        then 'expired' else state end,
    attempt, number, beat,
    case when state = 'running' and beat_in = pg_postmaster_start_time()
        then floor(extract(epoch from statement_timestamp() - beat_at) * 1000000)::bigint else 0 end,
    started_at, completed_at, expires_on, limit_ms, result, not_kept
from seriatim.once
where processor = $1 and id = $2
