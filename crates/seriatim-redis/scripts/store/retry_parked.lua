-- Marks a parked object, or all of a feed, to be tried again, and lets the owners know. ARGV: prefix, feed, and the object if it is one.
-- Returns how many.
local feed, objects = ARGV[2], { ARGV[3] }
if not ARGV[3] then objects = redis.call('ZRANGE', parked(feed), 0, -1) end
local marked, partitions = 0, {}
for _, object in ipairs(objects) do
  local partition = try_again(feed, object)
  if partition then
    marked = marked + 1
    partitions[partition] = true
  end
end
for partition in pairs(partitions) do ask(feed, partition) end
if marked > 0 then tell() end
return marked
