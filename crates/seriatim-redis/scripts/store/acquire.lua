-- Takes a lease that is as it was seen. ARGV: prefix, feed, partition, the session seen or '', the epoch seen, the next epoch, host, session,
-- the version seen.
-- Returns the epoch and position, or nothing when somebody was faster or the session was replaced.
local key, name, session = lease(ARGV[2], ARGV[3]), ARGV[7], ARGV[8]
if redis.call('HGET', host(name), 'session') ~= session then return {} end
-- The answer to an earlier call may have been lost: it is the caller's already.
if not is_as_seen(key, session, ARGV[6]) then
  if not is_as_seen(key, ARGV[4], ARGV[5]) then return {} end
  if (redis.call('HGET', key, 'version') or '0') ~= ARGV[9] then return {} end
  redis.call('HSET', key, 'owner', name, 'session', session, 'epoch', ARGV[6])
  redis.call('HINCRBY', key, 'version', 1)
  redis.call('HDEL', key, 'to')
  tell()
end
return redis.call('HMGET', key, 'epoch', 'position')
