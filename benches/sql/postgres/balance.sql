-- How many leases are owned, by how many hosts, and the fewest and the most that one of them has.
select coalesce(sum(n), 0)::bigint, count(*), coalesce(min(n), 0), coalesce(max(n), 0) from (
    select count(*) as n from seriatim.lease where owner is not null group by owner
) as hosts
