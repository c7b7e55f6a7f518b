-- Notes that a migration was applied.
insert into seriatim_version (component, version) values (?1, ?2)
