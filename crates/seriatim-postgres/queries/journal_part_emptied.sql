-- Whether rows that were noted in a partition ($1) since it was made are not in it, though nothing says so: it was emptied before it had its
-- trigger for that. A file of before is known by the partition's own number.
with made as (
    select (now.xid - mod(now.xid - i.xmin::text::bigint + 4294967296, 4294967296))::text::xid8 as xid
    from pg_inherits i, (select pg_snapshot_xmax(pg_current_snapshot())::text::bigint as xid) now
    where i.inhrelid = $1
), noted as materialized (
    select j.id, j.part, j.old_at, j.new_at from seriatim.journal_N j
    where j.xid >= (select m.xid from made m) and j.part in ($1, pg_relation_filenode($1))
)
select exists (
    select from noted j
    where j.new_at is not null and not exists (select from noted k where k.part = j.part and k.old_at = j.new_at and k.id > j.id)
        and (j.part <> pg_relation_filenode($1)
             or exists (select from noted k where k.part = j.part and k.new_at = j.new_at and k.id > j.id)
             or not exists (select from only {partition} x where x.ctid = j.new_at))
)
