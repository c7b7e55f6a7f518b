-- A capture's triggers on a table and its partitions: number, the transaction that wrote it last, whether it is enabled, whether it is
-- on the table itself, and the server's major version.
select g.oid, g.xmin::text, g.tgenabled in ('O', 'A'), g.tgrelid = $1, current_setting('server_version_num')::int4 / 10000
from pg_trigger g
where (g.tgrelid = $1 or g.tgrelid in (select t.relid from pg_partition_tree($1::oid) t)) and starts_with(g.tgname::text, $2)
order by g.oid
