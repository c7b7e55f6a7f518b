-- The changes kept for an object, in order.
select change
from seriatim.parked_change
where parked = (
    select seq from seriatim.parked where feed = $1 and sha256(object) = sha256($2)
)
order by seq
limit $3
