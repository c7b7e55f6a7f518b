-- Records what was sent, and sets the object aside. ARGV: prefix, object, worker, hold, sent, error, attempts. Returns 1 if it was held.
local object, name = ARGV[2], ARGV[3]
if not is_held(object, ARGV[4]) then return 0 end
record(object, ARGV[5])
redis.call('HSET', of(object, 'event.parked'), 'error', ARGV[6], 'attempts', ARGV[7], 'since', now())
redis.call('DEL', of(object, 'event.worker'), of(object, 'event.hold'))
redis.call('LREM', worker(name, 'object'), 1, object)
return 1
