-- Forgets all migrations of a component.
delete from seriatim_version where component = ?1
