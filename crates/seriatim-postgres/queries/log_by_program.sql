-- A log that this program made is taken out by it too.
update seriatim.log set by_program = true where watched::oid = $1
