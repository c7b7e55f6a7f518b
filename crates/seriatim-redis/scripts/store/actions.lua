-- What people did last, latest first: a moment in ms, a space, the text. ARGV: prefix, the last index.
return redis.call('LRANGE', actions, 0, ARGV[2])
