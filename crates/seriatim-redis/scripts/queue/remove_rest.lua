-- Forgets what a queue has beside its objects, unless one was queued since they were forgotten. ARGV: prefix, 1 when its events may be lost.
-- Returns how many keys are gone; -1 when the queue stays.
if ARGV[2] ~= '1' then
  for _, object in ipairs(redis.call('LRANGE', queued, 0, -1)) do
    if has_events(object) then return -1 end
  end
end
local gone = 0
for _, name in ipairs(redis.call('SMEMBERS', workers)) do
  gone = gone + redis.call('DEL', worker(name, 'state'), worker(name, 'object'))
end
return gone + redis.call('DEL', queued, workers, next_id, next_epoch, prefix .. 'event.discarded')
