-- A slot: plugin, whether it is of this database, whether it is read, by which session, its place, what it holds back, and whether it is lost.
select s.plugin::text, s.database = current_database(), s.active, s.active_pid, s.confirmed_flush_lsn::text,
    pg_wal_lsn_diff(pg_current_wal_lsn(), s.restart_lsn)::bigint, s.wal_status is not distinct from 'lost'
from pg_replication_slots s where s.slot_name = $1
