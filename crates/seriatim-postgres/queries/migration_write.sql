-- Notes that a migration was made.
insert into seriatim.version (component, version) values ($1, $2)
