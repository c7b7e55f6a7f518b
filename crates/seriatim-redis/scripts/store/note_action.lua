-- Notes what somebody did, and forgets all but the latest actions. ARGV: prefix, text, how many are remembered.
redis.call('LPUSH', actions, now() .. ' ' .. ARGV[2])
redis.call('LTRIM', actions, 0, tonumber(ARGV[3]) - 1)
return 1
