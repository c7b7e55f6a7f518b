-- What all scripts of the ledger share. KEYS[1] is the index of signals, ARGV[1] the prefix of every key, ARGV[2] the signal: its processor,
-- a line feed, its id.
--   once:SIGNAL      hash: state (running, completed, unknown), attempt, number, beat, beat_at, life, started_at, completed_at, expires_on,
--                    limit (in ms), kept (1 or 0), result (or why there is none). Times are in µs since 1970, expires_on in seconds.
--   once.index       sorted set of all signals, by name
--   once.removable   sorted set: signal -> the second from which on it may be removed
-- No key has a time to live of Redis' own: a server that is full evicts those first.
local prefix, index, signal = ARGV[1], KEYS[1], ARGV[2]
local removable = prefix .. 'once.removable'
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local function whole(number) return string.format('%.0f', number) end
local function key_of(name) return prefix .. 'once:' .. name end
local key = key_of(signal)

-- Which life of which server this is: another one may have another clock. Looked for as plain text: a pattern is tried at every letter.
local function life()
  local info = redis.call('INFO', 'server')
  local _, before = string.find(info, 'run_id:', 1, true)
  return before and string.sub(info, before + 1, before + 40) or ''
end

-- The second from which on something does not count any more that lasts for so many ms from now.
local function second_after(ms) return whole(math.ceil((now + tonumber(ms) * 1000) / 1000000)) end

local function remove_after(ms)
  if ms == '' then redis.call('ZREM', removable, signal) else redis.call('ZADD', removable, second_after(ms), signal) end
end

local function has_expired(state, expires_on)
  return state == 'completed' and expires_on and tonumber(expires_on) <= math.floor(now / 1000000)
end

-- Whether the signal is this attempt's and has not completed.
local function is_open(attempt)
  local is = redis.call('HMGET', key, 'state', 'attempt')
  return is[1] and is[1] ~= 'completed' and is[2] == attempt
end

local function forget()
  redis.call('DEL', key)
  redis.call('ZREM', index, signal)
  redis.call('ZREM', removable, signal)
end

-- Marks a sign of life.
local function beats() redis.call('HSET', key, 'beat_at', whole(now), 'life', life()) end

local function complete(expires, kept, result)
  if expires == '' then
    redis.call('HDEL', key, 'expires_on')
    redis.call('HSET', key, 'state', 'completed', 'completed_at', whole(now), 'kept', kept, 'result', result)
  else
    redis.call('HSET', key, 'state', 'completed', 'completed_at', whole(now), 'kept', kept, 'result', result, 'expires_on', second_after(expires))
  end
  remove_after(expires)
end

-- What is known about a signal, as a list of texts; nothing when it is not there. Its result only where that is asked for.
local function record(name, with_result)
  local is = redis.call('HMGET', key_of(name), 'state', 'attempt', 'number', 'beat', 'started_at', 'completed_at', 'expires_on', 'limit',
    'beat_at', 'life')
  if not is[1] then return {} end
  local state, stood_still = is[1], '0'
  if state == 'running' and is[10] ~= '' and is[10] == life() then stood_still = whole(math.max(0, now - tonumber(is[9]))) end
  if has_expired(state, is[7]) then state = 'expired' end
  local kept = with_result and redis.call('HMGET', key_of(name), 'kept', 'result') or {}
  return {name, state, is[2], is[3], is[4], is[5], is[6] or '', is[7] or '', is[8], stood_still, kept[1] or '', kept[2] or ''}
end
