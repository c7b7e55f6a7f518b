-- Lets a feed ($1) go on, tells hosts ($2 is their channel), and returns a row if it was paused.
with removed as (
    delete from seriatim.paused where feed = $1 returning feed
), told as (
    update seriatim.lease_mark set moved = moved + 1 where exists (select 1 from removed) returning pg_notify($2, 'resumed')::text
)
select 1 from removed, told
