-- Remembers a number of signals that were handled, under ids without order.
with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < ?1)
insert into seriatim_once (processor, id, state, attempt, number, beat, started_at, completed_at, expires_on, removable_on, limit_ms, result)
select 'bench', hex(randomblob(16)), 'completed', hex(randomblob(16)), 1, 0, 0, 0, 4000000000 + n, 4000000000 + n, 30000, '"done"'
from numbers
