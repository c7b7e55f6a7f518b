-- How many objects and changes of a feed are parked for people, of the first $2 objects and changes, and whether there are more.
with first_ones as materialized (
    select seq, retrying, attempts, next_try from seriatim.parked where feed = $1 order by sha256(object) limit $2::bigint
), for_people as materialized (
    select seq from first_ones where not retrying or attempts = 0 or next_try is not null
)
select
    (select count(*) from for_people),
    (select count(*) from (
        select 1 from for_people join seriatim.parked_change on parked_change.parked = for_people.seq limit $2::bigint
    ) counted),
    exists (select 1 from seriatim.parked where feed = $1 order by sha256(object) offset $2::bigint limit 1)
