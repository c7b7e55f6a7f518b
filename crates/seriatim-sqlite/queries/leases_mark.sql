-- Moves whenever leases are not as they were.
select moved from seriatim_store
