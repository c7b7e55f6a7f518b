-- What became of the changes: how many were handled, handled twice, handled out of order, and totals that are wrong.
select
    (select count(*) from handled),
    (select count(*) - count(distinct change) from handled),
    (select count(*) from (
        select revision, row_number() over (partition by order_id order by place) as expected from handled
    ) where revision <> expected),
    (select count(*) from (
        select customer, count(*) as orders, sum(amount) as amount from orders group by customer
        except select customer, orders, amount from totals
    )) + (select count(*) from (
        select customer, orders, amount from totals where orders <> 0 or amount <> 0
        except select customer, count(*), sum(amount) from orders group by customer
    )),
    (select count(*) from totals where orders > 0)
