-- What all scripts of the store share. KEYS[1] is the hash of feeds, ARGV[1] the prefix of every key.
--   store.id                    who the store is
--   feeds                       hash: feed -> number of partitions
--   lease:FEED:PARTITION        hash: owner, session, epoch, version, position, to (the host that asked for it)
--   hosts                       set of names;  host:NAME  hash: session, feeds, beat, seen
--   parked:FEED                 sorted set: object -> when it came, as a number
--   parked.why:FEED:OBJECT      hash: partition, key, error, attempts, since
--   parked.changes:FEED:OBJECT  list, oldest first;  parked.ids:FEED:OBJECT  set of the changes' ids
--   news                        stream of one entry: moves when a lease changes hands, is asked for, or a host comes or goes
local prefix, feeds = ARGV[1], KEYS[1]
local hosts, news = prefix .. 'hosts', prefix .. 'news'

local function lease(feed, partition) return prefix .. 'lease:' .. feed .. ':' .. partition end
local function host(name) return prefix .. 'host:' .. name end
local function parked(feed) return prefix .. 'parked:' .. feed end
local function parked_of(what, feed, object) return prefix .. 'parked.' .. what .. ':' .. feed .. ':' .. object end
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

local function free_leases_of(session)
  local all = redis.call('HGETALL', feeds)
  for at = 1, #all, 2 do
    for partition = 0, tonumber(all[at + 1]) - 1 do
      local key = lease(all[at], partition)
      if redis.call('HGET', key, 'session') == session then
        redis.call('HDEL', key, 'owner', 'session')
        redis.call('HINCRBY', key, 'version', 1)
      end
    end
  end
end

local function forget_parked(feed, object)
  redis.call('ZREM', parked(feed), object)
  redis.call('DEL', parked_of('why', feed, object), parked_of('changes', feed, object), parked_of('ids', feed, object))
end
