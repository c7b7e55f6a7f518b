-- Pauses a feed ($1), tells hosts ($2 is their channel), and returns a row if it was not paused.
with added as (
    insert into seriatim.paused (feed) values ($1) on conflict (feed) do nothing returning feed
), told as (
    update seriatim.lease_mark set moved = moved + 1 where exists (select 1 from added) returning pg_notify($2, 'paused')::text
)
select 1 from added, told
