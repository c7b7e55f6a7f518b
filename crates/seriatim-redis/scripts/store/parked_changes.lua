-- The changes kept for a parked object, in order. ARGV: prefix, feed, object, the last index.
local reply, changes = {}, parked_of('changes', ARGV[2], ARGV[3])
for _, id in ipairs(redis.call('ZRANGE', parked_of('ids', ARGV[2], ARGV[3]), 0, ARGV[4])) do
  reply[#reply + 1] = redis.call('HGET', changes, id)
end
return reply
