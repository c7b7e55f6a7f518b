-- Pushes events to an object that has room, after the producer's own writes. ARGV: prefix, object, limit ('' for none), number
-- of events, the events, and the producer's commands, each as its number of parts and the parts.
-- Returns -1, or how many events wait when those are too many.
local object, limit, count = ARGV[2], ARGV[3], tonumber(ARGV[4])
if count > 0 and limit ~= '' then
  local waiting = redis.call('LLEN', of(object, 'events'))
  if waiting + count > tonumber(limit) then return waiting end
end
local at = 5 + count
while ARGV[at] do
  local parts = tonumber(ARGV[at])
  redis.call(unpack(ARGV, at + 1, at + parts))
  at = at + parts + 1
end
if count > 0 then
  for event = 5, 4 + count do redis.call('LPUSH', of(object, 'events'), ARGV[event]) end
  redis.call('LPUSH', queued, object)
end
return -1
