-- Forgets a consumer.
delete from seriatim_consumer where feed = ?1 and store = ?2
