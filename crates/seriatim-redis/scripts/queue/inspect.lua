-- An object as it is now. ARGV: prefix, object. Returns nothing when nothing is known of it, else: waiting, being sent, first id, last id,
-- worker, hold, the session that has joined under that name, whether that worker lists it, whether it is queued, error, attempts,
-- since, the counter, and the other workers that list it. What there is none of is ''.
local object = ARGV[2]
local known = redis.call('MGET', of(object, 'event.id'), of(object, 'last.event.id'), of(object, 'event.worker'),
  of(object, 'event.hold'), next_id)
local parked = redis.call('HMGET', of(object, 'event.parked'), 'error', 'attempts', 'since')
local waiting = redis.call('LLEN', of(object, 'events'))
local lists = {}
for _, name in ipairs(redis.call('SMEMBERS', workers)) do
  if redis.call('LPOS', worker(name, 'object'), object) then lists[#lists + 1] = name end
end
if waiting == 0 and #lists == 0 and not (known[1] or known[2] or known[3] or known[4] or parked[1]) then return {} end
local holder, joined, listed, others = known[3], '', '0', {}
if holder then joined = redis.call('HGET', worker(holder, 'state'), 'session') or '' end
for _, name in ipairs(lists) do
  if name == holder then listed = '1' else others[#others + 1] = name end
end
local reply = {
  text(waiting), text(redis.call('LLEN', of(object, 'event'))), known[1] or '', known[2] or '', holder or '', known[4] or '',
  joined, listed, redis.call('LPOS', queued, object) and '1' or '0', parked[1] or '', parked[2] or '', parked[3] or '',
  known[5] or '0',
}
for _, name in ipairs(others) do reply[#reply + 1] = name end
return reply
