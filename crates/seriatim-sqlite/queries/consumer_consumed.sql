-- Notes how far a consumer has come, and that it is alive.
update seriatim_consumer set consumed = ?2, seen_at = ?3 where id = ?1
