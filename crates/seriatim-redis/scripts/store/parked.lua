-- The parked objects of a feed, oldest first, each as shown. ARGV: prefix, feed, partition or ''.
local reply = {}
for _, object in ipairs(redis.call('ZRANGE', parked(ARGV[2]), 0, -1)) do
  local is = shown(ARGV[2], object)
  if ARGV[3] == '' or ARGV[3] == is[1] then reply[#reply + 1] = is end
end
return reply
