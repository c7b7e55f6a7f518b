-- Makes sure that a feed has so many leases. ARGV: prefix, feed, partitions, start. Returns how many it has.
local feed, partitions = ARGV[2], ARGV[3]
redis.call('HSETNX', feeds, feed, partitions)
local existing = redis.call('HGET', feeds, feed)
if existing ~= partitions then return existing end
local made = false
for partition = 0, tonumber(partitions) - 1 do
  local key = lease(feed, partition)
  if redis.call('EXISTS', key) == 0 then
    made = true
    redis.call('HSET', key, 'epoch', 0, 'version', 0, 'position', ARGV[4])
  end
end
if made then tell() end
return existing
