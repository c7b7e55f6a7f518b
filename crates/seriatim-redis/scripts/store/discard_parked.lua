-- Drops the first change of a parked object, or all, and remembers it. ARGV: prefix, feed, object, id of the first change, 'first' or 'all', reason,
-- how many discards are remembered. Returns how many changes it dropped; 0 when the object does not begin so, -1 when its owner may be at it.
local feed, object, first = ARGV[2], ARGV[3], ARGV[4]
local ids = parked_of('ids', feed, object)
if redis.call('ZRANGE', ids, 0, 0)[1] ~= first then return 0 end
local is = redis.call('HMGET', parked_of('why', feed, object), 'partition', 'key', 'error', 'state')
if is[4] == 'retrying' and redis.call('HEXISTS', lease(feed, is[1]), 'session') == 1 then return -1 end
local dropped = redis.call('ZRANGE', ids, 0, ARGV[5] == 'all' and -1 or 0)
try_again(feed, object)
take_out(feed, object, dropped)
local note = { is[1], is[2], first, dropped[#dropped], tostring(#dropped), is[3], ARGV[6], now() }
redis.call('LPUSH', discarded(feed), cjson.encode(note))
redis.call('LTRIM', discarded(feed), 0, tonumber(ARGV[7]) - 1)
ask(feed, is[1])
tell()
return #dropped
