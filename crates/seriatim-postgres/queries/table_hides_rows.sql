-- Whether row level security may hide rows of a table from this role, and the role's name.
select pg_catalog.row_security_active($1::oid), quote_ident(current_user)
