-- What a discard of an object depends on, in a partition that is locked: which it is, whether it is tried again, its first change.
select seq, retrying, (select change_id from seriatim.parked_change where parked = parked.seq order by seq limit 1)
from seriatim.parked
where feed = $1 and sha256(object) = sha256($2) and partition = any ($3::integer[])
