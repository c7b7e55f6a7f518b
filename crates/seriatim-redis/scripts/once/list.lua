
-- Signals in the order of their names, without results. ARGV: prefix, '', where to begin and to end, how many at most.
-- Returns where the next page begins ('' when this was the last) and the records. A name whose record is gone, which only others can
-- have removed, is left out.
local names, records = call('ZRANGE', index, ARGV[3], ARGV[4], 'BYLEX', 'LIMIT', 0, ARGV[5]), {}
for _, name in ipairs(names) do
  local found = record(name, false)
  if #found > 0 then table.insert(records, found) end
end
return {#names == tonumber(ARGV[5]) and names[#names] or '', records}
