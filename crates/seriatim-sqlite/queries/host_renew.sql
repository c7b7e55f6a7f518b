-- Counts a host's heartbeat up and notes which feeds it runs now, if its name is still its own.
update seriatim_host
set beat = beat + 1, seen_at = cast(unixepoch('subsec') * 1000 as integer), feeds = ?3
where name = ?1 and session = ?2
