-- The batch after a tick: up to a given tick, or to the last one that keeps it within so many ids.
with first as (
    select n, snapshot, max_id, horizon from seriatim.tick where capture = $1 and n = $2
), next as (
    select n, max_id from seriatim.tick where capture = $1 and n > $2 and n <= $4 order by n limit 500
), chosen as (
    select coalesce($3, (select max(n) from next where max_id <= (select max_id from first) + $5), (select min(n) from next)) as n
)
select first.max_id, last.n, last.snapshot::text, pg_snapshot_xmin(last.snapshot)::text, last.max_id,
    array(
        select x::text::bigint from (
            select pg_snapshot_xip(first.snapshot)
            union all
            select g::text::xid8 from generate_series(
                pg_snapshot_xmax(first.snapshot)::text::bigint,
                least(first.horizon, pg_snapshot_xmax(last.snapshot))::text::bigint - 1
            ) g
        ) as late (x)
        where pg_visible_in_snapshot(x, last.snapshot)
    ),
    (select max(n) from seriatim.tick where capture = $1),
    -- A change with an id that its transaction was too late to draw: somebody has set the sequence back.
    exists (
        select from (
            select t.max_id, t.horizon, lead(t.horizon) over (order by t.n) as next_horizon
            from seriatim.tick t where t.capture = $1 and t.n >= $2 and t.n <= last.n
        ) t
        where exists (select from seriatim.journal_N j where j.xid >= t.horizon
                      and j.xid < least(t.next_horizon, pg_snapshot_xmax(last.snapshot)) and j.id <= t.max_id)
    )
from first left join seriatim.tick last on last.capture = $1 and last.n = (select n from chosen)
