-- Takes changes of parked objects out.
delete from seriatim.parked_change
using unnest($2::bytea[], $3::bigint[]) done (object, change_id)
join seriatim.parked on parked.feed = $1 and sha256(parked.object) = sha256(done.object)
where parked_change.parked = parked.seq and parked_change.change_id = done.change_id
