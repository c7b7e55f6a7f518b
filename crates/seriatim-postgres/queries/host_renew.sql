-- Counts a host's heartbeat up and notes which feeds it runs now, what keeps it from it and how much it has done, if its name is
-- still its own. This is the sign of life of all its leases.
update seriatim.host set beat = beat + 1, seen_at = clock_timestamp(), feeds = $3, troubles = $4, progress = $5
where name = $1 and session = $2
returning 1
