-- Forgets all but the latest discards of a feed.
delete from seriatim_discarded
where feed = ?1
    and seq <= (select seq from seriatim_discarded where feed = ?1 order by seq desc limit 1 offset ?2)
