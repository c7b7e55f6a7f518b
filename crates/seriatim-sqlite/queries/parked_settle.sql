-- Counts no attempts of a parked object any more: its first change is another one now.
update seriatim_parked set attempts = 0 where feed = ?1 and object = ?2
