-- What this role may do: its name, whether it may make a schema here, whether Seriatim's schema ($1) is there, and whether it may
-- be used and added to.
select current_user::text,
    has_database_privilege(current_database(), 'create'),
    namespace.oid is not null,
    coalesce(has_schema_privilege(namespace.oid, 'usage'), false),
    coalesce(has_schema_privilege(namespace.oid, 'create'), false),
    current_database()::text
from (select 1) only_row
left join pg_namespace namespace on namespace.nspname = $1
