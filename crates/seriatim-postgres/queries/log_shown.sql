-- How far a consumer ($1, $2) was shown numbers; null when that is not noted yet.
select shown from seriatim.consumer where feed = $1 and store = $2
