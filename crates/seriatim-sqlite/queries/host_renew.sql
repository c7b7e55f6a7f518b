-- Counts a host's heartbeat up and notes which feeds it runs now and what keeps it from it, if its name is still its own.
update seriatim_host
set beat = beat + 1, seen_at = cast(unixepoch('subsec') * 1000 as integer), feeds = ?3, troubles = ?4, progress = ?5
where name = ?1 and session = ?2
