-- Whether one of these late transactions ($3) has a change with an id that it was too late to draw: somebody has set the sequence back.
select exists (
    select from unnest($3::bigint[]) x
    cross join lateral (
        select t.max_id from seriatim.tick t
        where t.capture = $1 and t.n <= $2 and t.horizon <= x::text::xid8 order by t.n desc limit 1
    ) t
    where exists (select from seriatim.journal_N j where j.xid = x::text::xid8 and j.id <= t.max_id)
)
