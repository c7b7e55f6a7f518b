-- Notes where a consumer begins.
update seriatim_consumer set start = ?2 where id = ?1
