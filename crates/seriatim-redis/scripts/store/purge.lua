-- Removes some of the keys that begin with the prefix. ARGV: prefix, the prefix as a pattern, cursor. Returns the next cursor and how many
-- keys are gone.
local found = redis.call('SCAN', ARGV[3], 'MATCH', ARGV[2] .. '*', 'COUNT', 1000)
local gone = 0
for _, key in ipairs(found[2]) do
  gone = gone + redis.call('DEL', key)
end
return { found[1], tostring(gone) }
