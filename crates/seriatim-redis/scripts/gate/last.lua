-- The last event of an object that was applied; '' when none was. ARGV: prefix, object.
return redis.call('HGET', last, ARGV[2]) or ''
