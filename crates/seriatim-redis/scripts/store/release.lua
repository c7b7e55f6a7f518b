-- Sets leases free that are still their owners'. ARGV: prefix, then of each: feed, partition, session, epoch, the host it is kept for or ''.
local freed = false
for at = 2, #ARGV, 5 do
  local key = lease(ARGV[at], ARGV[at + 1])
  if is_as_seen(key, ARGV[at + 2], ARGV[at + 3]) then
    redis.call('HDEL', key, 'owner', 'session', 'to')
    redis.call('HINCRBY', key, 'version', 1)
    if ARGV[at + 4] ~= '' then redis.call('HSET', key, 'to', ARGV[at + 4]) end
    freed = true
  end
end
if freed then tell() end
return 0
