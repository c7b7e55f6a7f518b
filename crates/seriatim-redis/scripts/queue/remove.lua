-- Forgets what is known of some of the objects: those of one step over the node's keys. Producers' own keys with the same prefix stay, and so
-- does an object that has events, unless they may be lost. ARGV: prefix, the prefix as a pattern, cursor, 1 when they may.
-- Returns the next cursor ('0' at the end), and how many keys are gone.
local reply = redis.call('SCAN', ARGV[3], 'MATCH', ARGV[2] .. '*:*event*', 'COUNT', 1000)
local gone = 0
for _, key in ipairs(reply[2]) do
  local name = string.sub(key, #prefix + 1)
  for _, what in ipairs({ ':events', ':event', ':event.id', ':event.at', ':last.event.id', ':event.worker', ':event.hold', ':event.parked' }) do
    if string.sub(name, -#what) == what and (ARGV[4] == '1' or not has_events(string.sub(name, 1, -#what - 1))) then
      gone = gone + redis.call('UNLINK', key)
    end
  end
end
return { reply[1], text(gone) }
