-- Deletes every key of the queue. ARGV: prefix, the pattern of its keys.
local cursor = '0'
repeat
  local found = redis.call('SCAN', cursor, 'MATCH', ARGV[2], 'COUNT', 1000)
  cursor = found[1]
  for _, key in ipairs(found[2]) do redis.call('UNLINK', key) end
until cursor == '0'
return 0
