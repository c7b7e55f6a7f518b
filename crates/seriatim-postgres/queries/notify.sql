-- Tells everybody that hosts or leases have changed, those who listen and those who look.
update seriatim.lease_mark set moved = moved + 1 returning pg_notify($1, 'changed')::text
