-- Removes some signals that have expired, and runs of which nothing was heard for long. Waits for nobody: whoever writes to one of
-- them just now keeps it.
with removed as (
    delete from seriatim.once
    where ctid = any (array(
        select ctid from seriatim.once
        where removable_on <= floor(extract(epoch from statement_timestamp()))::bigint
        order by removable_on
        limit $1
        for update skip locked
    ))
    returning true
)
select count(*) from removed
