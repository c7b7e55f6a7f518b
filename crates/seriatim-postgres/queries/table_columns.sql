-- The columns of a table, a domain's with the type under it.
with recursive base (number, type, modifier) as (
    select a.attnum, a.atttypid, a.atttypmod from pg_attribute a where a.attrelid = $1 and a.attnum > 0 and not a.attisdropped
    union all
    select b.number, t.typbasetype, t.typtypmod from base b join pg_type t on t.oid = b.type where t.typtype = 'd'
)
select a.attnum, a.attname::text, t.oid, t.typtype::text, t.typcategory::text, format_type(t.oid, -1), a.attnotnull,
    format_type(a.atttypid, a.atttypmod),
    case when c.oid is not null then format('%I.%I', n.nspname, c.collname) end, coalesce(c.collisdeterministic, true),
    format('%s.%s', tn.nspname, t.typname), a.attgenerated <> '', b.modifier
from pg_attribute a
join base b on b.number = a.attnum
join pg_type t on t.oid = b.type and t.typtype <> 'd'
join pg_namespace tn on tn.oid = t.typnamespace
left join pg_collation c on c.oid = a.attcollation
left join pg_namespace n on n.oid = c.collnamespace
where a.attrelid = $1 and a.attnum > 0 and not a.attisdropped
order by a.attnum
