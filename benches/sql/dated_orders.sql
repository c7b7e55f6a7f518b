-- The followed table, with the moment of the last change.
create table orders (id integer primary key, customer text not null, amount integer not null, note text, updated_at integer not null);
create index orders_updated_at on orders (updated_at);
