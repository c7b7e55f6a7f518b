-- Takes over what workers of the algorithm's description left: one step over the node's keys. Such a worker keeps the event that it
-- sends with itself (event.worker:W:event), not with the object. ARGV: prefix, the prefix as a pattern, cursor.
-- Returns the next cursor ('0' at the end), then worker, object and id for each object; the id is '' where none was being sent.
local found = redis.call('SCAN', ARGV[3], 'MATCH', ARGV[2] .. 'event.worker:*:*', 'COUNT', 1000)
local reply = { found[1] }

local function adopt(name, object)
  local body, id = redis.call('RPOP', worker(name, 'event')), redis.call('GET', worker(name, 'event.id'))
  local last = tonumber(redis.call('GET', of(object, 'last.event.id')) or 0)
  if body and id and tonumber(id) > last and redis.call('EXISTS', of(object, 'event')) == 0 then
    -- As it was being sent: with its id, before all that wait.
    redis.call('RPUSH', of(object, 'event'), body)
    redis.call('MSET', of(object, 'event.id'), id, of(object, 'event.at'), now())
    if tonumber(redis.call('GET', next_id) or 0) < tonumber(id) then redis.call('SET', next_id, id) end
  elseif body then
    -- Later events have been sent already: it cannot have its id any more, and comes next.
    redis.call('RPUSH', of(object, 'events'), body)
  end
  redis.call('DEL', worker(name, 'event'), worker(name, 'event.id'))
  if redis.call('GET', of(object, 'event.worker')) == name then redis.call('DEL', of(object, 'event.worker')) end
  redis.call('LPUSH', queued, object)
  reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = name, object, body and id or ''
end

for _, key in ipairs(found[2]) do
  local name = string.match(string.sub(key, #prefix + 1), '^event%.worker:(.*):object$')
  -- A worker of this program has a state.
  if name and redis.call('EXISTS', worker(name, 'state')) == 0 then
    for _, object in ipairs(redis.call('LRANGE', key, 0, -1)) do adopt(name, object) end
    redis.call('DEL', key)
  end
end
return reply
