-- Gives a host's sign of life, for all its leases. ARGV: prefix, name, session, feeds, troubles, progress. Returns 1, or 0 when the session is gone.
local name, session = ARGV[2], ARGV[3]
if redis.call('HGET', host(name), 'session') ~= session then return 0 end
redis.call('HINCRBY', host(name), 'beat', 1)
redis.call('HSET', host(name), 'feeds', ARGV[4], 'troubles', ARGV[5], 'seen', now(), 'progress', ARGV[6])
return 1
