-- Tells the hosts that one of them may be dead: its lock is free.
select pg_notify($1, 'suspect')::text
