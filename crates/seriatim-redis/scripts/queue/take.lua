-- Takes the next object that has events and that nobody holds. ARGV: prefix, worker, session, limit.
-- Returns 'lost', 'nothing', 'again', or 'taken', the object, the epoch, and what is to be sent; or 'refused', an object that had to be
-- set aside because its events cannot be sent, and why.
local name, session, limit = ARGV[2], ARGV[3], tonumber(ARGV[4])
if not is_joined(name, session) then return { 'lost' } end

-- Why the events of an object can never be sent.
local function unsendable(object)
  for _, what in ipairs({ 'events', 'event' }) do
    local kind = redis.call('TYPE', of(object, what)).ok
    if kind ~= 'list' and kind ~= 'none' then return 'its key ' .. what .. ' is of the type ' .. kind .. ', and a list is expected' end
  end
  if is_name(object) then return end
  -- With ids, so that they can be discarded.
  stamp(object, limit)
  return 'its name is not UTF-8 text: events cannot name it'
end

-- Entries that mean nothing any more are dropped, some at a time: Redis does nothing else meanwhile.
for _ = 1, 200 do
  local object = redis.call('RPOP', queued)
  if not object then return { 'nothing' } end
  -- Who holds it, or retries it, sees its events.
  if redis.call('EXISTS', of(object, 'event.hold'), of(object, 'event.parked')) == 0 and has_events(object) then
    local why = unsendable(object)
    if why then
      set_aside(object, why, 0)
      return { 'refused', object, why }
    end
    local epoch = text(redis.call('INCR', next_epoch))
    redis.call('MSET', of(object, 'event.worker'), name, of(object, 'event.hold'), epoch .. ':' .. session)
    redis.call('LPUSH', worker(name, 'object'), object)
    stamp(object, limit)
    return sending(object, { 'taken', object, epoch })
  end
end
return { 'again' }
