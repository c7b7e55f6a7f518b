-- Where the log ends, and how far the relay is.
select pg_current_wal_insert_lsn()::text, (select r.passed::text from seriatim.relay r)
