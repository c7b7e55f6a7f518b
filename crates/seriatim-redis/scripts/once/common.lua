-- What all scripts of the ledger share. KEYS[1] is the index of signals, ARGV[1] the prefix of every key, ARGV[2] the signal: its processor,
-- a line feed, its id.
--   once:SIGNAL      hash: state (running, completed, unknown), attempt, number, beat, beat_at, life, started_at, completed_at, expires_on,
--                    limit (in ms), kept (1 or 0), result (or why there is none). Times are in µs since 1970, expires_on in seconds.
--   once.index       sorted set of all signals, by name
--   once.removable   sorted set: signal -> the second from which on it may be removed
-- No key has a time to live of Redis' own: a server that is full evicts those first.
--
-- All of this runs again with every call, and making a function takes as long as reading a field: what only some scripts need is in parts/.
local call, whole, prefix, index, signal = redis.call, '%.0f', ARGV[1], KEYS[1], ARGV[2]
local key, removable = prefix .. 'once:' .. signal, prefix .. 'once.removable'
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local at = whole:format(now)

-- Lets the signal be removed so many ms from now, or never (''). Returns that second: what lasts for so long does not count from then on.
local function remove_after(ms)
  if ms == '' then
    call('ZREM', removable, signal)
    return nil
  end
  local second = whole:format(math.ceil((now + ms * 1000) / 1000000))
  call('ZADD', removable, second, signal)
  return second
end
