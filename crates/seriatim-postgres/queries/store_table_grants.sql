-- The rights that this role lacks on tables ($2) of Seriatim's schema ($1).
select class.relname::text, privilege
from pg_class class
join pg_namespace namespace on namespace.oid = class.relnamespace and namespace.nspname = $1
cross join unnest(array['select', 'insert', 'update', 'delete']) privilege
where class.relname = any ($2) and not has_table_privilege(class.oid, privilege)
order by 1, 2
