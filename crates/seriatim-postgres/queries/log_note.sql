-- Notes in the shared books how far a consumer ($1, $2) is.
update seriatim.consumer set consumed = $3, seen_at = clock_timestamp() where feed = $1 and store = $2
