-- The followed table, with the moment of the last change.
create table orders (id bigint primary key, customer text not null, amount int not null, note text, updated_at timestamptz not null);
create index on orders (updated_at, id);
