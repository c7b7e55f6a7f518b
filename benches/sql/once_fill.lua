-- Remembers a number of signals that were handled. KEYS: the index. ARGV: prefix, the first number, how many.
local prefix = ARGV[1]
for n = tonumber(ARGV[2]), tonumber(ARGV[2]) + tonumber(ARGV[3]) - 1 do
  local signal = 'bench\n' .. redis.sha1hex(n)
  redis.call('HSET', prefix .. 'once:' .. signal, 'state', 'completed', 'attempt', redis.sha1hex(-n), 'number', 1, 'beat', 0,
    'started_at', '1700000000000000', 'limit', 30000, 'beat_at', '1700000000000000', 'life', 'x', 'completed_at', '1700000000000000',
    'kept', 1, 'result', '"done"', 'expires_on', 4000000000)
  redis.call('ZADD', KEYS[1], 0, signal)
  redis.call('ZADD', prefix .. 'once.removable', 4000000000 + n, signal)
end
return 0
