-- A sign of life. No row when another one relays by now.
update seriatim.relay_lease set beat = beat + 1 where epoch = $1
