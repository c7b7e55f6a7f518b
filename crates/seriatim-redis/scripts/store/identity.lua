-- Who the store is; a store that nobody has asked before is who the caller says. ARGV: prefix, a new id.
redis.call('SETNX', prefix .. 'store.id', ARGV[2])
return redis.call('GET', prefix .. 'store.id')
