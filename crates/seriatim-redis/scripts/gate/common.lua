-- What all scripts of a gate share. KEYS[1] is gate.last, ARGV[1] the prefix of every key.
--   gate.last        hash: the last event of each object that was applied
--   gate.holding     set: the objects of which something is held
--   OBJ:gate.order   sorted set: the ids of the held events
--   OBJ:gate.held    hash: a held event by its id, PREV:BODY
--   OBJ:gate.after   hash: the id of a held event by the one before it
local prefix, last = ARGV[1], KEYS[1]
local holding = prefix .. 'gate.holding'
local function of(object, what) return prefix .. object .. ':gate.' .. what end
