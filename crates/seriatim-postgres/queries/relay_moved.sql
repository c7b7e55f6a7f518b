-- What a relay has appended, and how far it is.
update seriatim.relay set committed = greatest(committed, $2::text::pg_lsn), passed = greatest(passed, $3::text::pg_lsn) where epoch = $1
