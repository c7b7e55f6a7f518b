-- How many events some of the objects have: those of one step over the node's keys. ARGV: prefix, the prefix as a pattern, cursor.
-- Returns the next cursor ('0' at the end), then an object, which list of it, and how long that is; one may come more than once.
local reply = redis.call('SCAN', ARGV[3], 'MATCH', ARGV[2] .. '*:event*', 'COUNT', 1000, 'TYPE', 'list')
local lengths = { reply[1] }
for _, key in ipairs(reply[2]) do
  local name = string.sub(key, #prefix + 1)
  for _, what in ipairs({ ':events', ':event' }) do
    if string.sub(name, -#what) == what and #name > #what then
      local at = #lengths
      lengths[at + 1], lengths[at + 2], lengths[at + 3] = string.sub(name, 1, -#what - 1), what, text(redis.call('LLEN', key))
    end
  end
end
return lengths
