-- Records what was sent, and gives the object up. ARGV: prefix, object, worker, hold, sent.
if is_held(ARGV[2], ARGV[4]) then
  record(ARGV[2], ARGV[5])
  give_up(ARGV[2], ARGV[3])
end
return 0
