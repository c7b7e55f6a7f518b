-- Enters a host under its name. ARGV: prefix, name, session, feeds, the session that may be replaced or '', its beat, the expiry in milliseconds.
-- Returns nothing, or the session, beat and expiry of who holds the name.
local name, session, replacing = ARGV[2], ARGV[3], ARGV[5]
local holder = redis.call('HMGET', host(name), 'session', 'beat', 'expire')
if holder[1] then
  if holder[1] ~= replacing or holder[2] ~= ARGV[6] then return { holder[1], holder[2], holder[3] } end
  free_leases_of(holder[1])
end
-- A text where older versions want a set: they cannot look at the leases any more.
redis.call('SET', hosts, 'this store is used by a newer version of Seriatim')
redis.call('HSET', host(name), 'session', session, 'feeds', ARGV[4], 'beat', 0, 'seen', now(), 'troubles', '[]', 'expire', ARGV[7], 'progress', 0)
redis.call('SADD', sessions, name)
tell()
return {}
