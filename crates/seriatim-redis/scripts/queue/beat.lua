-- A sign of life. ARGV: prefix, name, session. Returns nothing when the session was replaced, else 'kept', and each object that is
-- held with its hold.
local name, session = ARGV[2], ARGV[3]
if not is_joined(name, session) then return {} end
redis.call('HINCRBY', worker(name, 'state'), 'beat', 1)
redis.call('HSET', worker(name, 'state'), 'seen', now())
local reply = { 'kept' }
for _, object in ipairs(redis.call('LRANGE', worker(name, 'object'), 0, -1)) do
  local hold = redis.call('GET', of(object, 'event.hold'))
  if hold and string.match(hold, ':(.*)$') == session then
    reply[#reply + 1], reply[#reply + 2] = object, hold
  end
end
return reply
