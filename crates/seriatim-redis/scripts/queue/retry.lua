-- Queues a parked object again. ARGV: prefix, object. Returns 1 if it was parked.
if redis.call('DEL', of(ARGV[2], 'event.parked')) == 0 then return 0 end
if has_events(ARGV[2]) then redis.call('RPUSH', queued, ARGV[2]) end
return 1
