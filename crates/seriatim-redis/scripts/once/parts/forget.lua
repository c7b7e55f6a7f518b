
local function forget()
  call('DEL', key)
  call('ZREM', index, signal)
  call('ZREM', removable, signal)
end
