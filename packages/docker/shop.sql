-- The shop of compose.yaml.
create table orders (id bigint generated always as identity primary key, amount bigint not null);
create table orders_copy (id bigint primary key, amount bigint not null);
insert into orders (amount) values (10), (20), (30);
