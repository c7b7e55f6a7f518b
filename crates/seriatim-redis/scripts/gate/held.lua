-- Everything that is held: object, id and PREV:BODY of each. ARGV: prefix.
local reply = {}
for _, object in ipairs(redis.call('SMEMBERS', holding)) do
  for _, id in ipairs(redis.call('ZRANGE', of(object, 'order'), 0, -1)) do
    local at = #reply
    reply[at + 1], reply[at + 2], reply[at + 3] = object, id, redis.call('HGET', of(object, 'held'), id)
  end
end
return reply
