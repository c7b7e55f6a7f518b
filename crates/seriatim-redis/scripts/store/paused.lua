-- The feeds that are paused, each with the moment since when. ARGV: prefix.
return redis.call('HGETALL', paused)
