create table orders (id integer primary key, customer text not null, amount integer not null);
insert into orders values (1, 'ada', 10), (2, 'bob', 5), (3, 'nobody', 7);
