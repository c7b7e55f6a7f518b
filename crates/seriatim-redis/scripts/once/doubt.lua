
-- Makes a run that is exactly as it was seen unknown; it is kept until somebody resolves it. ARGV: prefix, signal, attempt, beat.
if not is_open(ARGV[3]) or call('HGET', key, 'beat') ~= ARGV[4] then return 0 end
call('HSET', key, 'state', 'unknown')
remove_after('')
return 1
