-- Moves the checkpoint of a lease, takes out what is parked no more, and parks, if it is still this owner's. ARGV: prefix, feed, partition, session,
-- epoch, position, what is handled beyond it or '', the number of objects that are tried again, then these; the number of objects to take
-- changes out of, then of each of them: object, number of ids, ids; then of each change to park: object, key, id, change, state ('retrying',
-- 'parked', or '' when it only waits behind another), error, attempts, the time of the next try or ''.
-- Returns 'done', or the epoch of the lease ('' when there is no such lease).
local feed, partition = ARGV[2], ARGV[3]
local key = lease(feed, partition)
if not is_as_seen(key, ARGV[4], ARGV[5]) then return redis.call('HGET', key, 'epoch') or '' end

local at = 9
for place = at, at + tonumber(ARGV[8]) - 1 do
  local why = parked_of('why', feed, ARGV[place])
  if redis.call('EXISTS', why) == 1 then redis.call('HSET', why, 'state', 'retrying') end
end
at = at + tonumber(ARGV[8])

local count = tonumber(ARGV[at])
at = at + 1
for _ = 1, count do
  local object, ids, last = ARGV[at], {}, at + 1 + tonumber(ARGV[at + 1])
  for place = at + 2, last do ids[#ids + 1] = ARGV[place] end
  take_out(feed, object, ids)
  at = last + 1
end

for at = at, #ARGV, 8 do
  local object, id, change, state, error, attempts = ARGV[at], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4], ARGV[at + 5], ARGV[at + 6]
  local next_try = ARGV[at + 7]
  local why, changes = parked_of('why', feed, object), parked_of('changes', feed, object)
  if redis.call('EXISTS', why) == 0 then
    if state == '' then state = 'retrying' end
    redis.call('ZADD', parked(feed), next_place(), object)
    redis.call('HSET', why, 'partition', partition, 'key', ARGV[at + 1], 'error', error, 'attempts', attempts, 'state', state, 'next', next_try, 'since', now(), 'bytes', 0)
  elseif state ~= '' then
    redis.call('HSET', why, 'error', error, 'attempts', attempts, 'state', state, 'next', next_try)
  end
  if redis.call('HSETNX', changes, id, change) == 1 then
    redis.call('ZADD', parked_of('ids', feed, object), next_place(), id)
    redis.call('HINCRBY', why, 'bytes', #change)
  end
end
-- Last: were a script to fail half way, nothing would be passed that is not parked.
redis.call('HSET', key, 'position', ARGV[6])
if ARGV[7] == '' then redis.call('HDEL', key, 'done') else redis.call('HSET', key, 'done', ARGV[7]) end
redis.call('HINCRBY', key, 'version', 1)
return 'done'
