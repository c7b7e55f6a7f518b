-- The key and the index of the followed table, made when its rows are there.
alter table orders add primary key (id);
create index on orders (updated_at, id);
