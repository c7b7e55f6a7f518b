-- Takes a host out, and sets the leases of its session free. ARGV: prefix, name, session.
local name, session = ARGV[2], ARGV[3]
if redis.call('HGET', host(name), 'session') == session then
  redis.call('DEL', host(name))
  redis.call('SREM', sessions, name)
end
free_leases_of(session)
tell()
return 0
