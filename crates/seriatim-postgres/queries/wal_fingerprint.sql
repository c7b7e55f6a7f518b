-- What the relay's publication and a table's replica identity look like, in short, and whether the relay may go on.
select md5(concat_ws('|',
    (select string_agg(format('%s:%s', p.oid, p.xmin), ',') from pg_publication p where p.pubname = r.publication),
    (select string_agg(format('%s:%s', l.oid, l.xmin), ',') from pg_publication_rel l join pg_publication p on p.oid = l.prpubid
     where p.pubname = r.publication and l.prrelid = $1),
    (select c.relreplident from pg_class c where c.oid = $1),
    (select string_agg(p.relreplident::text, ',' order by t.relid::oid) from pg_partition_tree($1::oid::regclass) t join pg_class p on p.oid = t.relid),
    coalesce(r.fault, '')))
from seriatim.relay r
