-- Takes the next object that has events and that nobody holds. ARGV: prefix, worker, session, limit.
-- Returns 'lost', 'nothing', 'again', or 'taken', the object, the epoch, and what is to be sent.
local name, session, limit = ARGV[2], ARGV[3], tonumber(ARGV[4])
if not is_joined(name, session) then return { 'lost' } end
-- Entries that mean nothing any more are dropped, some at a time: Redis does nothing else meanwhile.
for _ = 1, 200 do
  local object = redis.call('RPOP', queued)
  if not object then return { 'nothing' } end
  -- Who holds it, or retries it, sees its events.
  if redis.call('EXISTS', of(object, 'event.hold'), of(object, 'event.parked')) == 0 and has_events(object) then
    local epoch = text(redis.call('INCR', next_epoch))
    redis.call('MSET', of(object, 'event.worker'), name, of(object, 'event.hold'), epoch .. ':' .. session)
    redis.call('LPUSH', worker(name, 'object'), object)
    stamp(object, limit)
    return sending(object, { 'taken', object, epoch })
  end
end
return { 'again' }
