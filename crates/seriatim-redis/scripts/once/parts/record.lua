
local function has_expired(state, expires_on)
  return state == 'completed' and expires_on and tonumber(expires_on) <= math.floor(now / 1000000)
end

-- What is known about a signal, as a list of texts; nothing when it is not there. Its result only where that is asked for.
local function record(name, with_result)
  local its_key = prefix .. 'once:' .. name
  local is = call('HMGET', its_key, 'state', 'attempt', 'number', 'beat', 'started_at', 'completed_at', 'expires_on', 'limit', 'beat_at', 'life')
  if not is[1] then return {} end
  local state, stood_still = is[1], '0'
  if state == 'running' and is[10] ~= '' and is[10] == life() then stood_still = whole:format(math.max(0, now - is[9])) end
  if has_expired(state, is[7]) then state = 'expired' end
  local kept = with_result and call('HMGET', its_key, 'kept', 'result') or {}
  return {name, state, is[2], is[3], is[4], is[5], is[6] or '', is[7] or '', is[8], stood_still, kept[1] or '', kept[2] or ''}
end
