-- The watched table.
create table orders (id integer primary key, customer text not null, amount integer not null, note text);
