-- The owner tries parked objects again by itself.
update seriatim.parked
set retrying = true
where feed = $1 and sha256(object) = any (select sha256(o) from unnest($2::bytea[]) o)
