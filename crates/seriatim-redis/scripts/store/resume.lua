-- Lets a feed go on. ARGV: prefix, feed. Returns 1 if it was paused.
local was_paused = redis.call('HDEL', paused, ARGV[2])
if was_paused == 1 then tell() end
return was_paused
