-- What all scripts of the queue share. KEYS[1] is objects.with.events, ARGV[1] the prefix of every key: with a hash tag in it, all
-- keys of a queue are in one slot. The newest event is at the left of a list, the oldest at the right.
--   OBJ:events          list: pushed and not stamped
--   OBJ:event           list: stamped and not recorded as sent
--   OBJ:event.id        the id of the oldest of them; the others follow without a gap
--   OBJ:event.at        when they were stamped, in milliseconds since 1970
--   OBJ:last.event.id   the id of the last event that was recorded as sent
--   OBJ:event.worker    the name of the worker that holds the object
--   OBJ:event.hold      EPOCH:SESSION of that worker's hold
--   OBJ:event.parked    hash: error, attempts, since
--   event.worker:W:object  list: the objects that W holds;  event.worker:W:state  hash: session, beat, seen, expire
--   event.workers  set of names;  next.event.id, next.event.epoch  counters
local prefix, queued = ARGV[1], KEYS[1]
local next_id, next_epoch, workers = prefix .. 'next.event.id', prefix .. 'next.event.epoch', prefix .. 'event.workers'

local function of(object, what) return prefix .. object .. ':' .. what end
local function worker(name, what) return prefix .. 'event.worker:' .. name .. ':' .. what end
-- Lua would write great numbers as 1e+15.
local function text(number) return string.format('%.0f', number) end

local function now()
  local time = redis.call('TIME')
  return text(time[1] * 1000 + math.floor(time[2] / 1000))
end

-- What is not UTF-8: the lead bytes and what must follow them, all of which is replaced, and what then is left above ASCII.
local sequences = { '[\194-\223][\128-\191]', '\224[\160-\191][\128-\191]', '[\225-\236\238\239][\128-\191][\128-\191]',
  '\237[\128-\159][\128-\191]', '\240[\144-\191][\128-\191][\128-\191]', '[\241-\243][\128-\191][\128-\191][\128-\191]',
  '\244[\128-\143][\128-\191][\128-\191]' }

-- Whether events of an object of this name can be sent: it is text, and not empty.
local function is_name(object)
  if object == '' then return false end
  if not string.find(object, '[\128-\255]') then return true end
  for _, sequence in ipairs(sequences) do object = string.gsub(object, sequence, '.') end
  return not string.find(object, '[\128-\255]')
end

local function has_events(object)
  return redis.call('EXISTS', of(object, 'events'), of(object, 'event')) > 0
end

-- Forgets what was sent up to the id `sent`; '' when nothing was.
local function record(object, sent)
  local first = sent ~= '' and redis.call('GET', of(object, 'event.id'))
  if not first then return end
  local length = redis.call('LLEN', of(object, 'event'))
  local count = math.min(tonumber(sent) - tonumber(first) + 1, length)
  if count <= 0 then return end
  redis.call('SET', of(object, 'last.event.id'), text(tonumber(first) + count - 1))
  if count == length then
    redis.call('DEL', of(object, 'event'), of(object, 'event.id'), of(object, 'event.at'))
  else
    redis.call('LTRIM', of(object, 'event'), 0, -(count + 1))
    redis.call('SET', of(object, 'event.id'), text(tonumber(first) + count))
  end
end

-- Stamps at most `limit` events, when none are stamped yet. Returns whether there is anything to send.
local function stamp(object, limit)
  if redis.call('EXISTS', of(object, 'event')) == 1 then return true end
  local bodies = redis.call('LRANGE', of(object, 'events'), -limit, -1)
  if #bodies == 0 then return false end
  redis.call('LTRIM', of(object, 'events'), 0, -(#bodies + 1))
  redis.call('RPUSH', of(object, 'event'), unpack(bodies))
  local first = redis.call('INCRBY', next_id, #bodies) - #bodies + 1
  local last = tonumber(redis.call('GET', of(object, 'last.event.id')) or 0)
  -- A counter that was lost may stand below what this object has seen.
  if last >= first then
    first = last + 1
    redis.call('SET', next_id, text(last + #bodies))
  end
  redis.call('MSET', of(object, 'event.id'), text(first), of(object, 'event.at'), now())
  return true
end

-- What is to be sent, after what came before: first id, last id or '', time, and the events, newest first.
local function sending(object, reply)
  local known = redis.call('MGET', of(object, 'event.id'), of(object, 'last.event.id'), of(object, 'event.at'))
  reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = known[1], known[2] or '', known[3]
  for _, body in ipairs(redis.call('LRANGE', of(object, 'event'), 0, -1)) do reply[#reply + 1] = body end
  return reply
end

local function is_held(object, hold) return redis.call('GET', of(object, 'event.hold')) == hold end

-- Sets an object free; with events left, it is the next one to be taken.
local function give_up(object, name)
  redis.call('DEL', of(object, 'event.worker'), of(object, 'event.hold'))
  redis.call('LREM', worker(name, 'object'), 1, object)
  if has_events(object) then redis.call('RPUSH', queued, object) end
end

-- Sets an object aside: nobody takes it until it is retried.
local function set_aside(object, error, attempts)
  redis.call('HSET', of(object, 'event.parked'), 'error', error, 'attempts', attempts, 'since', now())
end

-- Takes a worker out; what it held is queued again.
local function remove(name)
  local session = redis.call('HGET', worker(name, 'state'), 'session')
  for _, object in ipairs(redis.call('LRANGE', worker(name, 'object'), 0, -1)) do
    local hold = redis.call('GET', of(object, 'event.hold'))
    if hold and string.match(hold, ':(.*)$') == session then give_up(object, name) end
  end
  redis.call('DEL', worker(name, 'state'), worker(name, 'object'))
  redis.call('SREM', workers, name)
end

local function is_joined(name, session) return redis.call('HGET', worker(name, 'state'), 'session') == session end
