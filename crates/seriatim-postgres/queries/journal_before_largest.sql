-- The last tick inside a batch that did not see the largest of these transactions; null when the first one did already.
select (
    select max(t.n) from seriatim.tick t
    where t.capture = $1 and t.n > $2 and t.n < $3 and not pg_visible_in_snapshot(x::text::xid8, t.snapshot)
) as before
from unnest($4::bigint[]) x
cross join lateral (
    select count(*) as rows from (select from seriatim.journal_N j where j.xid = x::text::xid8 limit $5) j
) large
order by large.rows desc, before desc nulls last limit 1
