-- The next existing rows after $1, up to $2, at most $3, as they were when tick $5 was made, without those that were changed
-- between the ticks $4 and $5; and those of that part of the table that were deleted after $5.
with page as materialized (
    select {image} as image, {page_columns} from {table} t
    where ($1::text[] is null or ({row_columns}) > ({after})) and ($2::text[] is null or ({row_columns}) <= ({upper}))
    order by {row_columns} limit $3
), hashed as materialized (
    select p.*, {hash} as hash from page p
), told as (
    select {columns}, true as in_table, p.hash,
        case when f.op is null then p.image when not f.seen then f.before end as image, f.id as noted
    from hashed p
    left join lateral (
        select e.id, e.op, e.before, pg_visible_in_snapshot(e.xid, $5::text::pg_snapshot) as seen
        from seriatim.journal_N e
        where e.hash = p.hash and not pg_visible_in_snapshot(e.xid, $4::text::pg_snapshot) and {same_as_page}
        order by e.id limit 1
    ) f on true
), recent as (
    select j.* from seriatim.journal_N j where j.xid >= pg_snapshot_xmax($5::text::pg_snapshot)
    union all
    select j.* from pg_snapshot_xip($5::text::pg_snapshot) x join seriatim.journal_N j on j.xid = x
), gone as (
    select {gone_columns}, false as in_table, j.hash, j.before as image, j.id as noted
    from recent j
    where j.op in ('d', 'u')
        and ($1::text[] is null or ({gone_values}) > ({after})) and ($2::text[] is null or ({gone_values}) <= ({upper}))
        and ((select count(*) from page) < $3
             or ({gone_values}) <= (select {columns} from page order by {columns_down} limit 1))
        and not exists (select 1 from hashed e0, lateral (select e0.image as before, null::json as after) e
                        where e0.hash = j.hash and {same_as_gone})
        and not exists (select 1 from seriatim.journal_N e
                        where e.hash = j.hash and e.id < j.id and not pg_visible_in_snapshot(e.xid, $4::text::pg_snapshot)
                            and {same_as_gone})
)
select array[{texts}], in_table, hash, image, noted from (select * from told union all select * from gone) r
order by {columns}
