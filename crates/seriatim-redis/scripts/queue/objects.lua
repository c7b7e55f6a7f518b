-- Some of the objects that are not at rest: those of one step over the node's keys. ARGV: prefix, the prefix as a pattern, cursor.
-- Returns the next cursor ('0' at the end), then names; one may come more than once.
local reply = redis.call('SCAN', ARGV[3], 'MATCH', ARGV[2] .. '*:event*', 'COUNT', 1000)
local names = { reply[1] }
for _, key in ipairs(reply[2]) do
  local name = string.sub(key, #prefix + 1)
  for _, what in ipairs({ ':events', ':event', ':event.hold', ':event.parked' }) do
    if string.sub(name, -#what) == what and #name >= #what then names[#names + 1] = string.sub(name, 1, -#what - 1) end
  end
end
if ARGV[3] == '0' then
  for _, name in ipairs(redis.call('SMEMBERS', workers)) do
    for _, object in ipairs(redis.call('LRANGE', worker(name, 'object'), 0, -1)) do names[#names + 1] = object end
  end
end
return names
