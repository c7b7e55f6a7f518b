-- Renews a host and some of its leases. ARGV: prefix, name, session, feeds, troubles, then feed, partition and epoch of each lease.
-- Returns for each '-' when it is lost, or '+' and the host that asked for it.
local name, session, reply = ARGV[2], ARGV[3], {}
local joined = redis.call('HGET', host(name), 'session') == session
if joined then
  redis.call('HINCRBY', host(name), 'beat', 1)
  redis.call('HSET', host(name), 'feeds', ARGV[4], 'troubles', ARGV[5], 'seen', now())
end
for at = 6, #ARGV, 3 do
  local key = lease(ARGV[at], ARGV[at + 1])
  if joined and is_as_seen(key, session, ARGV[at + 2]) then
    redis.call('HINCRBY', key, 'version', 1)
    reply[#reply + 1] = '+' .. (redis.call('HGET', key, 'to') or '')
  else
    reply[#reply + 1] = '-'
  end
end
return reply
