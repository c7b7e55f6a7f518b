-- The demo's shop: orders that writers keep changing, the totals that hosts keep in step, and a note of each change handled.
-- Ids of orders are never used again (autoincrement), so that each order has one history.
create table orders (
    id integer primary key autoincrement,
    customer text not null,
    amount integer not null,
    revision integer not null
);
create table totals (
    customer text primary key,
    orders integer not null,
    amount integer not null
);
create table handled (
    place integer primary key,
    change integer not null,
    order_id integer not null,
    revision integer not null
);
