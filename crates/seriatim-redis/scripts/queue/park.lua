-- Records what was sent, and sets the object aside. ARGV: prefix, object, worker, hold, sent, error, attempts. Returns 1 if it was held.
local object, name = ARGV[2], ARGV[3]
if not is_held(object, ARGV[4]) then return 0 end
record(object, ARGV[5])
set_aside(object, ARGV[6], ARGV[7])
redis.call('DEL', of(object, 'event.worker'), of(object, 'event.hold'))
redis.call('LREM', worker(name, 'object'), 1, object)
return 1
