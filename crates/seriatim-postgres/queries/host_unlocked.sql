-- Notes that nobody can tell from its lock whether a host lives.
update seriatim.host set locked_in = null where session = $1 and locked_in is not null
