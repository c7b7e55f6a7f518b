
-- A sign of life of a run that is still this attempt's. ARGV: prefix, signal, attempt, ms until it may be removed or ''.
if not is_open(ARGV[3]) then return 0 end
call('HINCRBY', key, 'beat', '1')
call('HSET', key, 'state', 'running', 'beat_at', at, 'life', life())
remove_after(ARGV[4])
return 1
