-- The leases of some feeds, and all hosts. ARGV: prefix, feeds. Returns the id of the last news, then the leases (feed, partition, epoch,
-- version, position, owner, session, to, asked) and the hosts (name, session, feeds, beat, seen, troubles). What there is none of is ''.
local last = redis.call('XREVRANGE', news, '+', '-', 'COUNT', 1)
local leases, all = {}, {}
for at = 2, #ARGV do
  local feed = ARGV[at]
  for partition = 0, tonumber(redis.call('HGET', feeds, feed) or 0) - 1 do
    local is = redis.call('HMGET', lease(feed, partition), 'epoch', 'version', 'position', 'owner', 'session', 'to', 'asked')
    leases[#leases + 1] = { feed, tostring(partition), is[1], is[2], is[3], is[4] or '', is[5] or '', is[6] or '', is[7] or '0' }
  end
end
for _, name in ipairs(redis.call('SMEMBERS', hosts)) do
  local is = redis.call('HMGET', host(name), 'session', 'feeds', 'beat', 'seen', 'troubles')
  if is[1] then all[#all + 1] = { name, is[1], is[2], is[3], is[4], is[5] } end
end
return { last[1] and last[1][1] or '0-0', leases, all }
