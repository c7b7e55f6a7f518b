
-- Whether the signal is this attempt's and has not completed.
local function is_open(attempt)
  local is = call('HMGET', key, 'state', 'attempt')
  return is[1] and is[1] ~= 'completed' and is[2] == attempt
end
