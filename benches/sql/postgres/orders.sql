-- The watched table.
create table orders (id bigint primary key, customer text not null, amount int not null, note text);
