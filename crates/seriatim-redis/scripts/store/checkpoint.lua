-- Moves the checkpoint of a lease and parks, if it is still this owner's. ARGV: prefix, feed, partition, session, epoch, position, then for
-- each change to park: object, key, id, change, "failed" or "waits", error, attempts.
-- Returns 'done', or the epoch of the lease ('' when there is no such lease).
local feed, partition = ARGV[2], ARGV[3]
local key = lease(feed, partition)
if not is_as_seen(key, ARGV[4], ARGV[5]) then return redis.call('HGET', key, 'epoch') or '' end
redis.call('HSET', key, 'position', ARGV[6])
redis.call('HINCRBY', key, 'version', 1)
for at = 7, #ARGV, 7 do
  local object, why = ARGV[at], parked_of('why', feed, ARGV[at])
  local failed, error, attempts = ARGV[at + 4] == 'failed', ARGV[at + 5], ARGV[at + 6]
  if redis.call('EXISTS', why) == 0 then
    redis.call('ZADD', parked(feed), redis.call('INCR', prefix .. 'parked.last'), object)
    redis.call('HSET', why, 'partition', partition, 'key', ARGV[at + 1], 'error', error, 'attempts', attempts, 'since', now())
  elseif failed then
    redis.call('HSET', why, 'error', error, 'attempts', attempts)
  end
  if redis.call('SADD', parked_of('ids', feed, object), ARGV[at + 2]) == 1 then
    redis.call('RPUSH', parked_of('changes', feed, object), ARGV[at + 3])
  end
end
return 'done'
