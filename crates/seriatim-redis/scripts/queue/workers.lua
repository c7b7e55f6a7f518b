-- All workers: name, session, beat, when last seen. ARGV: prefix.
local reply = {}
for _, name in ipairs(redis.call('SMEMBERS', workers)) do
  local state = redis.call('HMGET', worker(name, 'state'), 'session', 'beat', 'seen')
  if state[1] then reply[#reply + 1] = { name, state[1], state[2], state[3] } end
end
return reply
