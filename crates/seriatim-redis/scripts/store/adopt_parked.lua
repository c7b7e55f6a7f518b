-- Makes parked objects those of a lease's partition, if it is still this owner's. ARGV: prefix, feed, partition, session, epoch, objects.
-- Returns 'done', or the epoch of the lease ('' when there is no such lease).
local feed, partition = ARGV[2], ARGV[3]
local key = lease(feed, partition)
if not is_as_seen(key, ARGV[4], ARGV[5]) then return redis.call('HGET', key, 'epoch') or '' end
for at = 6, #ARGV do
  local why = parked_of('why', feed, ARGV[at])
  if redis.call('EXISTS', why) == 1 then redis.call('HSET', why, 'partition', partition) end
end
return 'done'
