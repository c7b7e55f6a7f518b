-- About how many rows a table has; -1 when nobody knows.
select reltuples::bigint from pg_class where oid = $1
