-- The leases of some feeds, and all hosts. ARGV: prefix, feeds. Returns the id of the last news, then the hosts, each as all_hosts has it, and the
-- leases (feed, partition, epoch, version, position, owner, session, to, asked, part). What there is none of is ''.
local leases = {}
for at = 2, #ARGV do
  local feed = ARGV[at]
  for _, partition in ipairs(partitions_of(feed)) do
    local is = redis.call('HMGET', lease(feed, partition), 'epoch', 'version', 'position', 'owner', 'session', 'to', 'asked', 'part')
    leases[#leases + 1] = { feed, partition, is[1], is[2], is[3], is[4] or '', is[5] or '', is[6] or '', is[7] or '0', is[8] or '' }
  end
end
return { mark(), all_hosts(), leases }
