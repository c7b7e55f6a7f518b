-- Notes that a consumer ($1, $2) is shown numbers up to $3, unless the note is older than the one that is known ($4).
update seriatim.consumer set shown = greatest(shown, $3)
where feed = $1 and store = $2 and coalesce(shown, $4) >= $4
