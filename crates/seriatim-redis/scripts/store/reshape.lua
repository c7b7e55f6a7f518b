-- Changes which leases a feed has, if they are as they were seen. ARGV: prefix, feed; then lists, each after its length: the leases seen (partition,
-- part or ''), those that must have no owner (partition), those that get another part (partition, part), those that go (partition), those that
-- come (partition, part, start). Returns 1 if it was so.
local feed, at = ARGV[2], 3

-- The next list, of so many values each.
local function list(width)
  local all, first = {}, at + 1
  at = first + tonumber(ARGV[at]) * width
  for place = first, at - 1, width do
    local one = {}
    for offset = 0, width - 1 do one[offset + 1] = ARGV[place + offset] end
    all[#all + 1] = one
  end
  return all
end

local seen, free, marked, gone, born = list(2), list(1), list(2), list(1), list(3)
local now = partitions_of(feed)
if #now ~= #seen then return 0 end
for place, is in ipairs(seen) do
  if now[place] ~= is[1] or (redis.call('HGET', lease(feed, is[1]), 'part') or '') ~= is[2] then return 0 end
end
for _, is in ipairs(free) do
  if redis.call('HEXISTS', lease(feed, is[1]), 'session') == 1 then return 0 end
end
-- The leases first, then those that say which there are: were a script to fail half way, nothing would be lost.
for _, is in ipairs(born) do redis.call('HSET', lease(feed, is[1]), 'epoch', 0, 'version', 0, 'position', is[3], 'part', is[2]) end
for _, is in ipairs(marked) do
  redis.call('HSET', lease(feed, is[1]), 'part', is[2])
  redis.call('HINCRBY', lease(feed, is[1]), 'version', 1)
end
for _, partition in ipairs(now) do redis.call('ZADD', parts(feed), partition, partition) end
for _, is in ipairs(born) do redis.call('ZADD', parts(feed), is[1], is[1]) end
for _, is in ipairs(gone) do
  redis.call('ZREM', parts(feed), is[1])
  redis.call('DEL', lease(feed, is[1]))
end
redis.call('HSET', feeds, feed, 0)
tell()
return 1
