-- Some of the parked objects: those of one step over the node's keys. ARGV: prefix, the prefix as a pattern, cursor.
-- Returns the next cursor ('0' at the end), then names; one may come more than once.
local what = ':event.parked'
local reply = redis.call('SCAN', ARGV[3], 'MATCH', ARGV[2] .. '*' .. what, 'COUNT', 1000)
local names = { reply[1] }
for _, key in ipairs(reply[2]) do names[#names + 1] = string.sub(key, #prefix + 1, -#what - 1) end
return names
