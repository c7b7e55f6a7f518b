-- Nobody relays any more.
with lease as (delete from seriatim.relay_lease) delete from seriatim.relay
