-- How many committed changes of a partition come after a place, up to so many, and how old the oldest is. No row when the
-- place is not known.
with first as (
    select snapshot, max_id, horizon from seriatim.tick where capture = $1 and n = $2
), last as (
    select snapshot, max_id from seriatim.tick where capture = $1 and n = $3
), late as (
    -- Numbers that the tick had passed, of transactions that it did not see.
    select j.id, j.xid, j.at, j.hash from first, pg_snapshot_xip(first.snapshot) x join seriatim.journal_N j on j.xid = x
    where j.id <= first.max_id
    union all
    select j.id, j.xid, j.at, j.hash from first join seriatim.journal_N j
        on j.xid >= pg_snapshot_xmax(first.snapshot) and j.xid < first.horizon
    where j.id <= first.max_id
), later as (
    select l.* from late l
    union all
    select j.id, j.xid, j.at, j.hash from seriatim.journal_N j where j.id > (select max_id from first)
), counted as (
    select l.at from later l left join last on true
    where (l.hash is null or l.hash % $5::int4 = $6::int4)
        and (l.id > $4 or last.snapshot is null or not pg_visible_in_snapshot(l.xid, last.snapshot))
    limit $7
)
select (select count(*) from counted),
    (select extract(epoch from clock_timestamp() - min(c.at))::float8 from counted c)
from first
