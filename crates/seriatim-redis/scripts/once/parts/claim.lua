
-- Claims the signal, of which nothing is there, for the attempt in ARGV[3]. ARGV[4] is its limit, ARGV[5] the ms until it may be removed or ''.
local function claim(number)
  call('HSET', key, 'state', 'running', 'attempt', ARGV[3], 'number', number, 'beat', '0', 'started_at', at, 'limit', ARGV[4], 'beat_at', at,
    'life', life())
  remove_after(ARGV[5])
end
