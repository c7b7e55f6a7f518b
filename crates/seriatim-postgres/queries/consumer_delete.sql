-- Forgets a consumer.
delete from seriatim.consumer where feed = $1 and store = $2
