-- Notes up to where a log has forgotten deletes.
update seriatim_capture set pruned = max(pruned, ?2) where id = ?1
