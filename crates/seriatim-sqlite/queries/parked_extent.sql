-- The last change kept for a parked object, and how many there are.
select change_id, (select count(*) from seriatim_parked_change where feed = ?1 and object = ?2)
from seriatim_parked_change
where feed = ?1 and object = ?2
order by seq desc
limit 1
