
-- Claims a signal that is not there, whose completion has expired, or whose run is exactly as it was seen. ARGV: prefix, signal, attempt, limit, ms
-- until it may be removed or '', the attempt and beat seen or ''. Returns the number of the attempt, or the record as it stands.
local is = call('HMGET', key, 'state', 'attempt', 'beat', 'number', 'expires_on')
local as_seen = is[1] == 'running' and is[2] == ARGV[6] and is[3] == ARGV[7]
if has_expired(is[1], is[5]) or as_seen then
  local number = is[4] + 1
  call('DEL', key)
  claim(number)
  return number
end
-- The answer to an earlier call may have been lost: it is the caller's already.
if is[1] == 'running' and is[2] == ARGV[3] then return tonumber(is[4]) end
return record(signal, true)
