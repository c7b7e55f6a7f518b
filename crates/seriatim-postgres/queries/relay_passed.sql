-- Everything up to this place concerns no journal, or is appended. No row when it is not the relay any more.
update seriatim.relay set passed = greatest(passed, $2::text::pg_lsn) where epoch = $1 and fault is null
