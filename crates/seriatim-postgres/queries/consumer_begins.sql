-- Notes where a consumer begins.
update seriatim.consumer set start = $2 where id = $1
