-- The latest discards of a feed, latest first. ARGV: prefix, feed, the last index.
return redis.call('LRANGE', discarded(ARGV[2]), 0, ARGV[3])
