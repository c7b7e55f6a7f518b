-- Signals after a place in the order of processor and id, without results.
select processor, id, shown.state, attempt, number, beat,
    case when once.state = 'running' and beat_in = pg_postmaster_start_time()
        then floor(extract(epoch from statement_timestamp() - beat_at) * 1000000)::bigint else 0 end,
    started_at, completed_at, expires_on, limit_ms, null::bytea, null::text
from seriatim.once
cross join lateral (
    select case when once.state = 'completed' and expires_on <= floor(extract(epoch from statement_timestamp()))::bigint
        then 'expired' else once.state end as state
) shown
where (processor, id) > ($1, $2) and ($3::text is null or processor = $3) and ($4::text is null or shown.state = $4)
order by processor, id
limit $5
