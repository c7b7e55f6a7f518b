
-- Most signals are not there: they are claimed before what only the others need is made ready.
if not call('HGET', key, 'state') then
  call('ZADD', index, '0', signal)
  claim('1')
  return 1
end
