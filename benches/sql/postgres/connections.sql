-- The most connections that one host has to the server.
select coalesce(max(n), 0) from (
    select count(*) as n from pg_stat_activity where application_name like 'host%' group by application_name
) as hosts
