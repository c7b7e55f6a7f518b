-- The parked objects of a feed, oldest first. ARGV: prefix, feed, partition or ''. Returns partition, key, error, attempts, since, waiting of each.
local reply = {}
for _, object in ipairs(redis.call('ZRANGE', parked(ARGV[2]), 0, -1)) do
  local is = redis.call('HMGET', parked_of('why', ARGV[2], object), 'partition', 'key', 'error', 'attempts', 'since')
  if ARGV[3] == '' or ARGV[3] == is[1] then
    is[6] = tostring(redis.call('LLEN', parked_of('changes', ARGV[2], object)))
    reply[#reply + 1] = is
  end
end
return reply
