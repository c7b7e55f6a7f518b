
-- Completes a run that is still this attempt's. ARGV: prefix, signal, attempt, ms until it expires or '', kept, result.
local is = call('HMGET', key, 'state', 'attempt')
if not is[1] or is[2] ~= ARGV[3] then return 0 end
if is[1] ~= 'completed' then complete(ARGV[4], ARGV[5], ARGV[6]) end
return 1
