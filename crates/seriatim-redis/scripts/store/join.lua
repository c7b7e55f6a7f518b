-- Enters a host under its name. ARGV: prefix, name, session, feeds, the session that may be replaced or '', its beat.
-- Returns nothing, or the session and beat of who holds the name.
local name, session, replacing = ARGV[2], ARGV[3], ARGV[5]
local holder = redis.call('HMGET', host(name), 'session', 'beat')
if holder[1] then
  if holder[1] ~= replacing or holder[2] ~= ARGV[6] then return { holder[1], holder[2] } end
  free_leases_of(holder[1])
end
redis.call('HSET', host(name), 'session', session, 'feeds', ARGV[4], 'beat', 0, 'seen', now(), 'troubles', '[]')
redis.call('SADD', hosts, name)
tell()
return {}
