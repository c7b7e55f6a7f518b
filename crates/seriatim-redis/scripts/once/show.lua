
-- All that is known about a signal. ARGV: prefix, signal.
return record(signal, true)
