-- A consumer goes on elsewhere: nothing from there on may be pruned, and it may have been there already.
update seriatim_consumer set consumed = min(consumed, ?2), shown = max(shown, ?2) where id = ?1
