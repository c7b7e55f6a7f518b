-- How many objects and changes of a feed are parked for people, of the first ?2 objects and changes, and whether there are more.
with
    first_ones as (select object, retrying, attempts, next_try from seriatim_parked where feed = ?1 order by object limit ?2),
    for_people as (select object from first_ones where not retrying or attempts = 0 or next_try is not null)
select
    (select count(*) from for_people),
    (select count(*) from (
        select 1 from for_people p join seriatim_parked_change c on c.feed = ?1 and c.object = p.object limit ?2
    )),
    exists (select 1 from seriatim_parked where feed = ?1 limit 1 offset ?2)
