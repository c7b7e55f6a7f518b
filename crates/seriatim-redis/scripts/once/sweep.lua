
-- Removes some signals that have expired, and runs of which nothing was heard for long. ARGV: prefix, '', how many at most.
local old = call('ZRANGE', removable, '-inf', math.floor(now / 1000000), 'BYSCORE', 'LIMIT', 0, ARGV[3])
for _, name in ipairs(old) do
  call('DEL', prefix .. 'once:' .. name)
  call('ZREM', index, name)
  call('ZREM', removable, name)
end
return #old
