-- A publication ($1), and a table ($2) in it: number, the transaction that wrote it last, whether all of the table's changes are published, and whether it is
-- of all tables. Filters of rows and columns are newer than the oldest server, so they are not named.
select p.oid, p.xmin::text, p.pubinsert and p.pubupdate and p.pubdelete and p.pubtruncate
    and (p.pubviaroot or (select c.relkind <> 'p' from pg_class c where c.oid = $2)), p.puballtables
from pg_publication p where p.pubname = $1
union all
select r.oid, r.xmin::text, (to_jsonb(r) ->> 'prqual') is null and (to_jsonb(r) ->> 'prattrs') is null, false
from pg_publication_rel r join pg_publication p on p.oid = r.prpubid where p.pubname = $1 and r.prrelid = $2
