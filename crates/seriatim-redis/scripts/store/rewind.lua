-- Sets the position of a lease that is exactly as it was seen, and frees it under the next epoch. ARGV: prefix, feed, partition, session seen,
-- epoch seen, the next epoch, position, 'drop' to forget what is parked in the partition, the version seen. Returns 1 if it was so, also for a repetition.
local feed, partition, key = ARGV[2], ARGV[3], lease(ARGV[2], ARGV[3])
if not is_as_seen(key, ARGV[4], ARGV[5]) then
  local rewound = is_as_seen(key, '', ARGV[6]) and redis.call('HGET', key, 'position') == ARGV[7]
  return rewound and 1 or 0
end
if (redis.call('HGET', key, 'version') or '0') ~= ARGV[9] then return 0 end
redis.call('HDEL', key, 'owner', 'session', 'to', 'done')
redis.call('HSET', key, 'epoch', ARGV[6], 'position', ARGV[7])
redis.call('HINCRBY', key, 'version', 1)
if ARGV[8] == 'drop' then
  for _, object in ipairs(redis.call('ZRANGE', parked(feed), 0, -1)) do
    if redis.call('HGET', parked_of('why', feed, object), 'partition') == partition then forget_parked(feed, object) end
  end
end
tell()
return 1
