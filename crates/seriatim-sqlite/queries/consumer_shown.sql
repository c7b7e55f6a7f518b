-- The registration of a consumer, and how far it was shown changes.
select id, shown from seriatim_consumer where feed = ?1 and store = ?2
