-- Enters a worker under its name. ARGV: prefix, name, session, the session that may be replaced or '', its beat, the expiry in ms.
-- Returns nothing, or the session, beat and expiry of who holds the name.
local name, session, replacing = ARGV[2], ARGV[3], ARGV[4]
local holder = redis.call('HMGET', worker(name, 'state'), 'session', 'beat', 'expire')
if holder[1] and holder[1] ~= session then
  if holder[1] ~= replacing or holder[2] ~= ARGV[5] then return { holder[1], holder[2], holder[3] or '' } end
  remove(name)
end
redis.call('HSET', worker(name, 'state'), 'session', session, 'beat', 0, 'expire', ARGV[6], 'seen', now())
redis.call('SADD', workers, name)
return {}
