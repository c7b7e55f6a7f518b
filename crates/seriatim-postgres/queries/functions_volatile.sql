-- A function of one of these names that may do more than answer, if there is one.
select p.proname::text from pg_proc p where p.proname = any ($1::text[]) and p.provolatile = 'v' and p.prokind = 'f' limit 1
