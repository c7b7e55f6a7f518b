
-- Completes the signal, to expire so many ms from now or '' for never.
local function complete(expires, kept, result)
  local second = remove_after(expires)
  if second then
    call('HSET', key, 'state', 'completed', 'completed_at', at, 'kept', kept, 'result', result, 'expires_on', second)
  else
    call('HDEL', key, 'expires_on')
    call('HSET', key, 'state', 'completed', 'completed_at', at, 'kept', kept, 'result', result)
  end
end
