-- Notes up to where a journal is pruned.
update seriatim_capture set floor = max(floor, ?2) where id = ?1
