-- Notes how far the rows that were there before the triggers are listed.
update seriatim_capture set seeded = ?2 where id = ?1
