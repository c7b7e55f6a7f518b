-- Notes who wants leases that are as they were seen, unless somebody else has asked. ARGV: prefix, host, then of each: feed, partition, session seen,
-- epoch seen. Returns 1 for each that was asked for, otherwise 0.
local name, reply, asked = ARGV[2], {}, false
for at = 3, #ARGV, 4 do
  local key = lease(ARGV[at], ARGV[at + 1])
  local first = redis.call('HGET', key, 'to')
  local may = is_as_seen(key, ARGV[at + 2], ARGV[at + 3]) and (not first or first == name)
  if may then
    redis.call('HSET', key, 'to', name)
    asked = true
  end
  reply[#reply + 1] = may and '1' or '0'
end
if asked then tell() end
return reply
