-- Tells everybody that leases are not as they were.
update seriatim_store set moved = moved + 1
