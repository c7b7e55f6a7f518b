-- Transactions that are prepared in this database, and sessions that only tidy up. To be asked after the open ones.
select p.gid, p.transaction::text, p.owner::text, p.prepared, null::int4
from pg_prepared_xacts p where p.database = current_database()
union all
select null, null, null, null, v.pid from pg_stat_progress_vacuum v
union all
-- Neither can be part of a transaction that does anything else.
select null, null, null, null, i.pid from pg_stat_progress_create_index i where i.command like '% CONCURRENTLY'
