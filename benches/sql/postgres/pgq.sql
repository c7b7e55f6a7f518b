-- PgQ notes every change of the table in a queue.
create extension if not exists pgq;
select pgq.create_queue('orders');
create trigger noted after insert or update or delete on orders for each row execute function pgq.logutriga('orders');
