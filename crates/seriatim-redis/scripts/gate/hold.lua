-- Keeps an event that came too early, once. ARGV: prefix, object, id, prev or '', the event.
local object, id, prev = ARGV[2], ARGV[3], ARGV[4]
redis.call('ZADD', of(object, 'order'), id, id)
redis.call('HSETNX', of(object, 'held'), id, prev .. ':' .. ARGV[5])
redis.call('HSETNX', of(object, 'after'), prev, id)
redis.call('SADD', holding, object)
return 1
