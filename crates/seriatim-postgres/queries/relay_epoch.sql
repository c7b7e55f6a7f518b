-- The relay of this epoch may append from now on, and none before it. Waits for an append that is under way.
update seriatim.relay set epoch = $1 where epoch < $1
