-- What was dropped, the last first. ARGV: prefix, how many at most.
return redis.call('LRANGE', prefix .. 'event.discarded', 0, tonumber(ARGV[2]) - 1)
