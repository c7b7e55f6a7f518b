-- Appends changes to a stream, each once and under the newest epoch, and notes them beside it. Keys: the stream, and its books.
-- ARGV: prefix of the books, 'remember' or 'forget', partition, its mark (generation-epoch), most entries or '', number of changes;
-- then for each change: object, mark (generation-rank), number of names and values, names and values.
-- Marks have leading zeros: they compare as texts.
local stream, books = KEYS[1], ARGV[1]
local remembers, partition, epoch, most = ARGV[2] == 'remember', ARGV[3], ARGV[4], ARGV[5]
local epochs, held = books .. 'epochs', books .. 'held'

if remembers then
  local newest = redis.call('HGET', epochs, partition)
  if newest and newest > epoch then
    return { 'fenced', newest }
  end
end

local at = 7
local changes = {}
for _ = 1, tonumber(ARGV[6]) do
  local fields = tonumber(ARGV[at + 2])
  local change = { object = ARGV[at], mark = ARGV[at + 1], from = at + 3, upto = at + 2 + fields }
  if remembers then
    local last = redis.call('HGET', held, change.object)
    -- Sixteen digits of the generation.
    if last and string.sub(last, 1, 16) > string.sub(change.mark, 1, 16) then
      return { 'fenced', last }
    end
  end
  changes[#changes + 1] = change
  at = change.upto + 1
end

local added, known = 0, 0
for _, change in ipairs(changes) do
  local last = remembers and redis.call('HGET', held, change.object)
  if last and last >= change.mark then
    known = known + 1
  else
    local trim = most == '' and {} or { 'MAXLEN', '~', most }
    local command = { 'XADD', stream }
    for _, word in ipairs(trim) do command[#command + 1] = word end
    command[#command + 1] = '*'
    for index = change.from, change.upto do command[#command + 1] = ARGV[index] end
    redis.call(unpack(command))
    if remembers then
      redis.call('HSET', held, change.object, change.mark)
    end
    added = added + 1
  end
end
if remembers then
  redis.call('HSET', epochs, partition, epoch)
end
return { 'added', added, known }
