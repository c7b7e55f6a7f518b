-- Takes out the hosts of an older version that have not beaten since they were seen. ARGV: prefix, then session and beat of each of these.
-- Returns those that are left: name, session, feeds, beat, seen, troubles, expire ('' as it is not known), progress.
local reply, silent = {}, {}
if redis.call('TYPE', hosts).ok ~= 'set' then return reply end
for at = 2, #ARGV, 2 do silent[ARGV[at]] = ARGV[at + 1] end
for _, name in ipairs(redis.call('SMEMBERS', hosts)) do
  local is = redis.call('HMGET', older_host(name), 'session', 'feeds', 'beat', 'seen', 'troubles')
  if is[1] and silent[is[1]] ~= is[3] then
    reply[#reply + 1] = { name, is[1], is[2], is[3], is[4], is[5] or '[]', '', '0' }
  else
    if is[1] then free_leases_of(is[1]) end
    redis.call('DEL', older_host(name))
    redis.call('SREM', hosts, name)
  end
end
return reply
