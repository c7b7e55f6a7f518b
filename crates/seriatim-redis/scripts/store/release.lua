-- Sets a lease free, if it is still this owner's. ARGV: prefix, feed, partition, session, epoch, the host it is kept for or ''.
local key = lease(ARGV[2], ARGV[3])
if is_as_seen(key, ARGV[4], ARGV[5]) then
  redis.call('HDEL', key, 'owner', 'session', 'to')
  redis.call('HINCRBY', key, 'version', 1)
  if ARGV[6] ~= '' then redis.call('HSET', key, 'to', ARGV[6]) end
  tell()
end
return 0
