-- The names of all feeds. ARGV: prefix.
return redis.call('HKEYS', feeds)
