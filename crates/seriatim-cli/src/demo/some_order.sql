-- Some order: the first at or after a share of all ids.
select id from orders where id >= ?1 * (select max(id) from orders) order by id limit 1
