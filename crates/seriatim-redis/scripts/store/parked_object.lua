-- One parked object as shown, or nothing. ARGV: prefix, feed, object.
return shown(ARGV[2], ARGV[3])
