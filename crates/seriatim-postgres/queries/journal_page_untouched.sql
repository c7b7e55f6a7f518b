-- The places of those rows of a page ($1: hashes of their keys, $2: their images) of which nothing was noted between the ticks $3 and $4.
select q.place from unnest($1::int4[], $2::text[]) with ordinality q (hash, image, place)
cross join lateral (select q.hash, q.image::json as image) p
where not exists (
    select from seriatim.journal_N e
    where e.hash = p.hash and not pg_visible_in_snapshot(e.xid, $3::text::pg_snapshot)
        and pg_visible_in_snapshot(e.xid, $4::text::pg_snapshot) and {counts} and {same_as_page}
)
order by q.place
