-- Drops the first event of a parked object, or all of them, if the first one is this; what is left is queued again.
-- ARGV: prefix, object, the id of the first, 1 for all of them, the reason, the object's name as people see it. Returns how many are gone; -1 when it is not parked or not so.
local object, first, reason = ARGV[2], ARGV[3], ARGV[5]
local error = redis.call('HGET', of(object, 'event.parked'), 'error')
if not error or redis.call('GET', of(object, 'event.id')) ~= first then return -1 end
local last, gone = tonumber(first), 1
if ARGV[4] == '1' then
  gone = redis.call('LLEN', of(object, 'event'))
  last = tonumber(first) + gone - 1
  gone = gone + redis.call('LLEN', of(object, 'events'))
  redis.call('DEL', of(object, 'events'))
end
record(object, text(last))
redis.call('DEL', of(object, 'event.parked'))
-- Remembered for the last thousand times.
local discarded = prefix .. 'event.discarded'
redis.call('LPUSH', discarded, cjson.encode({
  object = ARGV[6], first = first, last = text(last), events = text(gone), error = error, reason = reason, at = now(),
}))
redis.call('LTRIM', discarded, 0, 999)
if has_events(object) then redis.call('RPUSH', queued, object) end
return gone
