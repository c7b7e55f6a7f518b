-- Notes how far a consumer is shown changes.
update seriatim_consumer set shown = ?2 where id = ?1
