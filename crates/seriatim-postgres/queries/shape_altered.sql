-- For columns of a table, the id after which they were altered last. Every change that a tick saw which did not see the altering
-- transaction is from before it, and every change that came after a tick that did is from after it. Between the two, older
-- transactions are taken to be from before.
with altered as (
    select a.attnum, (now.xid - mod(now.xid - a.xmin::text::bigint + 4294967296, 4294967296))::text::xid8 as xid
    from pg_attribute a, (select pg_snapshot_xmax(pg_current_snapshot())::text::bigint as xid) now
    where a.attrelid = $2 and a.attnum = any ($3)
), bounds as (
    select x.attnum, x.xid,
        coalesce((select t.max_id from seriatim.tick t
                  where t.capture = $1 and not pg_visible_in_snapshot(x.xid, t.snapshot) order by t.n desc limit 1), 0) as low,
        coalesce((select t.max_id from seriatim.tick t
                  where t.capture = $1 and pg_visible_in_snapshot(x.xid, t.snapshot) order by t.n limit 1), 9223372036854775807) as high
    from altered x
)
select b.attnum, coalesce((
    select max(j.id) from seriatim.journal_N j where j.id > b.low and j.id <= b.high and j.xid < b.xid), b.low)
from bounds b
