
-- Says what became of an unknown run that is exactly as it was seen. ARGV: prefix, signal, attempt, beat, 'again' or 'completed', the next
-- beat, then as for complete. The beat tells a repetition from the run's own completion.
local is = call('HMGET', key, 'state', 'attempt', 'beat')
local as_seen = is[1] == 'unknown' and is[2] == ARGV[3] and is[3] == ARGV[4]
if ARGV[5] == 'again' then
  if as_seen then forget() end
  return (as_seen or not is[1]) and 1 or 0
end
if as_seen then
  complete(ARGV[7], ARGV[8], ARGV[9])
  call('HSET', key, 'beat', ARGV[6])
  return 1
end
return is[1] == 'completed' and is[2] == ARGV[3] and is[3] == ARGV[6] and 1 or 0
