-- What the log has of a table's rows: whether this role owns it, its replica identity, its columns in that, a generated column, a partition
-- whose identity is not the table's, and the columns whose values may be stored aside.
select pg_has_role(c.relowner, 'usage'), pg_get_userbyid(c.relowner)::text, c.relreplident::text,
    array(select a.attname::text from pg_index i cross join unnest(i.indkey::int2[]) with ordinality k (number, place)
          join pg_attribute a on a.attrelid = c.oid and a.attnum = k.number
          where i.indrelid = c.oid and k.place <= i.indnkeyatts
              and case c.relreplident when 'd' then i.indisprimary when 'i' then i.indisreplident else false end
          order by k.place),
    (select min(a.attname::text) from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated <> ''),
    (select min(t.relid::text) from pg_partition_tree(c.oid) t join pg_class p on p.oid = t.relid
        where t.isleaf and p.relreplident <> c.relreplident),
    array(select a.attname::text from pg_attribute a
          where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attlen = -1 and a.attstorage <> 'p' order by a.attnum)
from pg_class c where c.oid = $1
