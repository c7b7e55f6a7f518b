-- Takes leases that are as they were seen. ARGV: prefix, host, session, then of each lease: feed, partition, the session seen or '', the epoch seen, the
-- next epoch, the version seen, the owner's host or '', the beat seen of its session or ''.
-- Returns the epoch, the position, what is handled beyond it and the part of each; '' for one when somebody was faster, its owner has beaten since, or the session was replaced.
local name, session, reply, taken = ARGV[2], ARGV[3], {}, false
local joined = redis.call('HGET', host(name), 'session') == session

local function is_silent(owner, seen, beat)
  if seen == '' or seen == session then return true end
  local is = redis.call('HMGET', host(owner), 'session', 'beat')
  return is[1] ~= seen or is[2] == beat
end

local function take(at)
  local key, seen, next = lease(ARGV[at], ARGV[at + 1]), ARGV[at + 2], ARGV[at + 4]
  -- The answer to an earlier call may have been lost: it is the caller's already.
  if is_as_seen(key, session, next) then return true end
  if not is_as_seen(key, seen, ARGV[at + 3]) or not is_silent(ARGV[at + 6], seen, ARGV[at + 7]) then return false end
  if (redis.call('HGET', key, 'version') or '0') ~= ARGV[at + 5] then return false end
  redis.call('HSET', key, 'owner', name, 'session', session, 'epoch', next)
  redis.call('HINCRBY', key, 'version', 1)
  redis.call('HDEL', key, 'to')
  taken = true
  return true
end

for at = 4, #ARGV, 8 do
  local is = { '', '', '', '' }
  if joined and take(at) then is = redis.call('HMGET', lease(ARGV[at], ARGV[at + 1]), 'epoch', 'position', 'done', 'part') end
  local last = #reply
  reply[last + 1], reply[last + 2], reply[last + 3], reply[last + 4] = is[1], is[2], is[3] or '', is[4] or ''
end
if taken then tell() end
return reply
