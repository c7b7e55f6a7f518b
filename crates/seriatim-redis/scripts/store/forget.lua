-- Forgets a feed: its leases, what is parked and what was discarded. ARGV: prefix, feed.
local feed = ARGV[2]
for _, partition in ipairs(partitions_of(feed)) do redis.call('DEL', lease(feed, partition)) end
for _, object in ipairs(redis.call('ZRANGE', parked(feed), 0, -1)) do forget_parked(feed, object) end
redis.call('DEL', discarded(feed), parts(feed))
redis.call('HDEL', feeds, feed)
redis.call('HDEL', paused, feed)
tell()
return 0
