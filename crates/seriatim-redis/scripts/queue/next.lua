-- Records what was sent, and returns what is to be sent next or releases the object. ARGV: prefix, object, worker, hold, sent, limit.
-- Returns 'lost', 'released', or 'events' and what is to be sent.
local object, name, hold, sent, limit = ARGV[2], ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6])
if not is_held(object, hold) then return { 'lost' } end
record(object, sent)
if stamp(object, limit) then return sending(object, { 'events' }) end
give_up(object, name)
return { 'released' }
