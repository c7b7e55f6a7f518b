-- Takes out a worker that is as it was seen. ARGV: prefix, name, session, beat. Returns 1 if it was.
local seen = redis.call('HMGET', worker(ARGV[2], 'state'), 'session', 'beat')
if seen[1] ~= ARGV[3] or seen[2] ~= ARGV[4] then return 0 end
remove(ARGV[2])
return 1
