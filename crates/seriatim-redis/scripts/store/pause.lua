-- Pauses a feed. ARGV: prefix, feed. Returns 1 if it was not paused.
local is_new = redis.call('HSETNX', paused, ARGV[2], now())
if is_new == 1 then tell() end
return is_new
