-- Signals after a place in the order of processor and id, without results.
select processor, id, state, attempt, number, beat, beat_boot, beat_at, started_at, completed_at, expires_on, limit_ms, null, null
from seriatim_once
where (processor, id) > (?1, ?2)
  and (?3 is null or processor = ?3)
  and (?4 is null or ?4 = case when state = 'completed' and expires_on <= ?5 then 'expired' else state end)
order by processor, id
limit ?6
