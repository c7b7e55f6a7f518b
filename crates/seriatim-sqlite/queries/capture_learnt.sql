-- Notes what the triggers know of their table.
update seriatim_capture set known = ?2 where id = ?1
