-- Notes that a host holds its lock, on a connection that is new.
update seriatim.host set lock_number = lock_number + 1, locked_in = pg_postmaster_start_time() where session = $1
