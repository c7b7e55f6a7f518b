-- Notes who wants a lease that is as it was seen, unless somebody else has asked. ARGV: prefix, feed, partition, session seen, epoch seen, host.
local key = lease(ARGV[2], ARGV[3])
if not is_as_seen(key, ARGV[4], ARGV[5]) then return 0 end
local first = redis.call('HGET', key, 'to')
if first and first ~= ARGV[6] then return 0 end
redis.call('HSET', key, 'to', ARGV[6])
tell()
return 1
