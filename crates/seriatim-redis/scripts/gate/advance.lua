-- Moves an object from one event on to another and forgets what was held of it up to there. ARGV: prefix, object, from or '', to.
-- Returns 1 if it stood there, or stands there already.
local object, from, to = ARGV[2], ARGV[3], ARGV[4]
local stands = redis.call('HGET', last, object) or ''
if stands ~= from and stands ~= to then return 0 end
redis.call('HSET', last, object, to)
for _, id in ipairs(redis.call('ZRANGEBYSCORE', of(object, 'order'), '-inf', to)) do
  local prev = string.match(redis.call('HGET', of(object, 'held'), id) or '', '^(%d*):')
  redis.call('ZREM', of(object, 'order'), id)
  redis.call('HDEL', of(object, 'held'), id)
  if prev and redis.call('HGET', of(object, 'after'), prev) == id then redis.call('HDEL', of(object, 'after'), prev) end
end
if redis.call('EXISTS', of(object, 'order')) == 0 then redis.call('SREM', holding, object) end
return 1
