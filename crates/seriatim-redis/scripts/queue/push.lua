-- Pushes events to an object that has room, and does the producer's own writes: both or neither. ARGV: prefix, object, limit ('' for none),
-- number of events, the events, and the producer's commands, each as its number of parts and the parts.
-- Returns -1, or how many events wait when those are too many, or 'refused' and why. Nothing is written then.
local object, limit, count = ARGV[2], ARGV[3], tonumber(ARGV[4])
-- A command that fails does nothing, but those before it are done. A larger key than this is not copied for the case that they must
-- be undone.
local LARGEST = 1048576

if not is_name(object) then return { 'refused', 'the name of the object is not UTF-8 text' } end
for _, key in ipairs({ of(object, 'events'), queued }) do
  local kind = redis.call('TYPE', key).ok
  if kind ~= 'list' and kind ~= 'none' then return { 'refused', key .. ' is of the type ' .. kind .. ', and a list is expected' } end
end
if count > 0 and limit ~= '' then
  local waiting = redis.call('LLEN', of(object, 'events'))
  if waiting + count > tonumber(limit) then return waiting end
end

local commands, messages, at = {}, {}, 5 + count
while ARGV[at] do
  local command = { at + 1, at + tonumber(ARGV[at]) }
  local keys = redis.pcall('COMMAND', 'GETKEYS', unpack(ARGV, command[1], command[2]))
  local name = string.upper(ARGV[at + 1])
  command.name, command.keys = name, keys
  if not keys.err then
    commands[#commands + 1] = command
  elseif name == 'PUBLISH' or name == 'SPUBLISH' then
    -- Cannot be undone, and does not fail: last.
    messages[#messages + 1] = command
  else
    return { 'refused', name .. ' cannot be undone: ' .. keys.err }
  end
  at = command[2] + 1
end

-- What the keys hold that may have to be put back: those of all commands but the last.
local copies, copied = {}, {}
for place = 1, #commands - 1 do
  for _, key in ipairs(commands[place].keys) do
    if not copied[key] then
      copied[key] = true
      if not redis.acl_check_cmd('RESTORE', key, '0', '') then
        return { 'refused', 'this user may not RESTORE ' .. key .. ', which undoing ' .. commands[place].name .. ' needs' }
      end
      if (redis.call('MEMORY', 'USAGE', key) or 0) > LARGEST then
        return { 'refused', key .. ' is too large to be copied for the case that ' .. commands[place].name .. ' must be undone' }
      end
      copies[#copies + 1] = { key, redis.call('DUMP', key), redis.call('PEXPIRETIME', key) }
    end
  end
end

local function put_back()
  for _, copy in ipairs(copies) do
    if copy[2] then
      redis.call('RESTORE', copy[1], text(math.max(copy[3], 0)), copy[2], 'REPLACE', 'ABSTTL')
    else
      redis.call('DEL', copy[1])
    end
  end
end

for place, command in ipairs(commands) do
  local done = redis.pcall(unpack(ARGV, command[1], command[2]))
  if type(done) == 'table' and done.err then
    put_back()
    return { 'refused', command.name .. ', command ' .. place .. ' of the producer, failed: ' .. done.err }
  end
end
if count > 0 then
  for event = 5, 4 + count do redis.call('LPUSH', of(object, 'events'), ARGV[event]) end
  redis.call('LPUSH', queued, object)
end
for _, command in ipairs(messages) do redis.pcall(unpack(ARGV, command[1], command[2])) end
return -1
