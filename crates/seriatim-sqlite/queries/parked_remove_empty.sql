-- Forgets a parked object of which no change is kept.
delete from seriatim_parked
where feed = ?1 and object = ?2
    and not exists (select 1 from seriatim_parked_change c where c.feed = ?1 and c.object = ?2)
