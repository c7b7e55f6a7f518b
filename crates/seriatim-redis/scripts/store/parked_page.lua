-- Some of the parked objects of a feed, oldest first, each as its place and as shown. ARGV: prefix, feed, the place before or '-inf', how many.
local reply, after = {}, ARGV[3] == '-inf' and '-inf' or '(' .. ARGV[3]
local objects = redis.call('ZRANGEBYSCORE', parked(ARGV[2]), after, '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[4])
for at = 1, #objects, 2 do
  reply[#reply + 1] = objects[at + 1]
  reply[#reply + 1] = shown(ARGV[2], objects[at])
end
return reply
