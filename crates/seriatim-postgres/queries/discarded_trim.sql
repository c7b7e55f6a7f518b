-- Forgets all but the latest discards of a feed; those that somebody else is just forgetting are left to them.
delete from seriatim.discarded
where seq in (
    select seq
    from seriatim.discarded
    where feed = $1
        and seq <= (select seq from seriatim.discarded where feed = $1 order by seq desc limit 1 offset $2)
    order by seq
    for update skip locked
)
