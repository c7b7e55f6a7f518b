-- The log of a table ($1), and a text that changes with its columns and triggers.
select l.id, l.name, l.key_attnums, l.foreign_key, l.deletes,
    case when l.watched_oid <> l.watched::oid then 'restored' else l.broken end, l.repaired, l.pruned,
    l.listing = 'running', l.listing = 'done', l.listed_upto, l.listed, l.to_list,
    (select string_agg(t.tgname || t.tgenabled::text, ',' order by t.tgname) from pg_catalog.pg_trigger t
     where t.tgrelid = l.watched and t.tgname like 'seriatim\_log\_%') || ' ' ||
    (select string_agg(a.attnum || ' ' || a.attname || ' ' || a.atttypid || ' ' || a.attnotnull, ',' order by a.attnum)
     from pg_catalog.pg_attribute a where a.attrelid = l.watched and a.attnum > 0 and not a.attisdropped),
    concat_ws(' ', l.watched::text,
        (select concat(c.relrowsecurity, c.relforcerowsecurity) from pg_catalog.pg_class c where c.oid = l.watched)),
    l.repairs
from seriatim.log l
where l.watched::oid = $1
