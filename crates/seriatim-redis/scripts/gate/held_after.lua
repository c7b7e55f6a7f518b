-- The held event of an object that follows another one, or none. ARGV: prefix, object, prev or ''. Returns nothing, or its id and PREV:BODY.
local id = redis.call('HGET', of(ARGV[2], 'after'), ARGV[3])
if not id then return {} end
return { id, redis.call('HGET', of(ARGV[2], 'held'), id) }
