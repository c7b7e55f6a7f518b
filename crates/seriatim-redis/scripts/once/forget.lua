
-- Forgets a signal, if this attempt is its last one. ARGV: prefix, signal, attempt.
local attempt = call('HGET', key, 'attempt')
if attempt and attempt ~= ARGV[3] then return 0 end
forget()
return 1
