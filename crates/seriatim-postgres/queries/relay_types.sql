-- Types by number: the type under a domain, its sort, its category, and its name for casts.
with recursive base (of, type) as (
    select t.oid, t.oid from pg_type t where t.oid = any ($1::oid[])
    union all
    select b.of, t.typbasetype from base b join pg_type t on t.oid = b.type where t.typtype = 'd'
)
select b.of, t.oid, t.typtype::text, t.typcategory::text, format_type(t.oid, -1)
from base b join pg_type t on t.oid = b.type where t.typtype <> 'd'
