-- Takes a worker out, if it is still there. ARGV: prefix, name, session.
if is_joined(ARGV[2], ARGV[3]) then remove(ARGV[2]) end
return 0
