-- The changes kept for a parked object, in order. ARGV: prefix, feed, object, the last index.
return redis.call('LRANGE', parked_of('changes', ARGV[2], ARGV[3]), 0, ARGV[4])
