-- Tells everybody who listens that hosts or leases have changed.
select pg_notify($1, 'changed')::text
