-- The newest migration that the file has of a component, null when it has none.
select max(version) from seriatim_version where component = ?1
