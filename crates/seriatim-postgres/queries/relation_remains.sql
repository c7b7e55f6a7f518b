-- Whether there is still a relation of this number.
select exists (select 1 from pg_class where oid = $1)
