-- What all scripts of the store share. KEYS[1] is the hash of feeds, ARGV[1] the prefix of every key.
--   store.id                    who the store is
--   feeds                       hash: feed -> number of partitions; 0 once that was changed
--   parts:FEED                  sorted set, once the number of partitions was changed: the partitions
--   lease:FEED:PARTITION        hash: owner, session, epoch, version, position, done (what is handled beyond it), to (the host that asked for it),
--                               asked (how often somebody asked for a retry or discard), part (which part of its feed it is on, JSON)
--   sessions                    set of names;  session:NAME  hash: session, feeds, beat, seen, troubles, expire, progress: the sign of life of
--                               all leases that name the session, and the expiry by which others judge it
--   hosts                       a text, where older versions have a set of names (and host:NAME): they stop there. They would not see
--                               the sign of life of newer hosts
--   parked:FEED                 sorted set: object -> when it came, as a number
--   parked.why:FEED:OBJECT      hash: partition, key, error, attempts, state ('retrying' or 'parked'), since, bytes, next (when it is
--                               tried again, or '')
--   parked.changes:FEED:OBJECT  hash: id -> change;  parked.ids:FEED:OBJECT  sorted set: id -> when it came, as a number
--   discarded:FEED              list of JSON, latest first: partition, key, first, last, changes, error, reason, when
--   actions                     list, latest first: when, in ms, and what somebody did
--   paused                      hash: feed -> since when it is paused, in ms
--   news                        stream of one entry: moves when a lease changes hands, is asked for, its parked objects are, or a host comes or goes
local prefix, feeds = ARGV[1], KEYS[1]
local hosts, sessions, news = prefix .. 'hosts', prefix .. 'sessions', prefix .. 'news'
local actions = prefix .. 'actions'
local paused = prefix .. 'paused'

local function lease(feed, partition) return prefix .. 'lease:' .. feed .. ':' .. partition end
local function host(name) return prefix .. 'session:' .. name end
local function older_host(name) return prefix .. 'host:' .. name end
local function parked(feed) return prefix .. 'parked:' .. feed end
local function parked_of(what, feed, object) return prefix .. 'parked.' .. what .. ':' .. feed .. ':' .. object end
local function discarded(feed) return prefix .. 'discarded:' .. feed end
local function next_place() return redis.call('INCR', prefix .. 'parked.last') end
local function tell() redis.call('XADD', news, 'MAXLEN', 1, '*', 'n', 1) end

local function now()
  local time = redis.call('TIME')
  return string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
end

-- Whether the lease has this session ('' for none) and epoch.
local function is_as_seen(key, session, epoch)
  local is = redis.call('HMGET', key, 'session', 'epoch')
  return is[2] == epoch and (is[1] or '') == session
end

local function parts(feed) return prefix .. 'parts:' .. feed end

-- The partitions of a feed, in order.
local function partitions_of(feed)
  local count, all = tonumber(redis.call('HGET', feeds, feed) or -1), {}
  if count == 0 then return redis.call('ZRANGE', parts(feed), 0, -1) end
  for partition = 0, count - 1 do all[#all + 1] = tostring(partition) end
  return all
end

local function free_leases_of(session)
  for _, feed in ipairs(redis.call('HKEYS', feeds)) do
    for _, partition in ipairs(partitions_of(feed)) do
      local key = lease(feed, partition)
      if redis.call('HGET', key, 'session') == session then
        redis.call('HDEL', key, 'owner', 'session')
        redis.call('HINCRBY', key, 'version', 1)
      end
    end
  end
end

-- The id of the last news: while it is the same, all leases have the same owners.
local function mark()
  local last = redis.call('XREVRANGE', news, '+', '-', 'COUNT', 1)
  return last[1] and last[1][1] or '0-0'
end

-- All hosts: name, session, feeds, beat, seen, troubles, expire, progress.
local function all_hosts()
  local all = {}
  for _, name in ipairs(redis.call('SMEMBERS', sessions)) do
    local is = redis.call('HMGET', host(name), 'session', 'feeds', 'beat', 'seen', 'troubles', 'expire', 'progress')
    if is[1] then all[#all + 1] = { name, is[1], is[2], is[3], is[4], is[5], is[6], is[7] } end
  end
  return all
end

local function forget_parked(feed, object)
  redis.call('ZREM', parked(feed), object)
  redis.call('DEL', parked_of('why', feed, object), parked_of('changes', feed, object), parked_of('ids', feed, object))
end

-- Takes changes of a parked object out, and the object when nothing is left of it. Ids that are not there are not missed.
local function take_out(feed, object, ids)
  local why, changes, order = parked_of('why', feed, object), parked_of('changes', feed, object), parked_of('ids', feed, object)
  if redis.call('EXISTS', why) == 0 then return end
  for _, id in ipairs(ids) do
    if redis.call('ZREM', order, id) == 1 then
      redis.call('HINCRBY', why, 'bytes', -redis.call('HSTRLEN', changes, id))
      redis.call('HDEL', changes, id)
    end
  end
  redis.call('HSET', why, 'attempts', 0)
  if redis.call('EXISTS', order) == 0 then forget_parked(feed, object) end
end

-- A parked object: partition, key, error, attempts, state, since, waiting, bytes, next; nothing when it is not parked.
local function shown(feed, object)
  local is = redis.call('HMGET', parked_of('why', feed, object), 'partition', 'key', 'error', 'attempts', 'state', 'since', 'bytes', 'next')
  if not is[1] then return {} end
  is[7], is[8], is[9] = tostring(redis.call('ZCARD', parked_of('ids', feed, object))), is[7], is[8] or ''
  return is
end

-- Marks a parked object to be tried again, and returns its partition; nothing when it is not parked.
local function try_again(feed, object)
  local why = parked_of('why', feed, object)
  local partition = redis.call('HGET', why, 'partition')
  if partition then redis.call('HSET', why, 'state', 'retrying', 'attempts', 0) end
  return partition
end

-- Lets the owner of a partition know that somebody asked for something.
local function ask(feed, partition)
  local key = lease(feed, partition)
  if redis.call('EXISTS', key) == 1 then redis.call('HINCRBY', key, 'asked', 1) end
end
