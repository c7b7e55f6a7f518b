-- All workers: name, session, beat, when last seen, the expiry in ms or ''. ARGV: prefix.
local reply = {}
for _, name in ipairs(redis.call('SMEMBERS', workers)) do
  local state = redis.call('HMGET', worker(name, 'state'), 'session', 'beat', 'seen', 'expire')
  if state[1] then reply[#reply + 1] = { name, state[1], state[2], state[3], state[4] or '' } end
end
return reply
