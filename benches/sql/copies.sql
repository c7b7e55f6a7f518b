-- What the handler keeps: each order's latest amount.
create table copies (id integer primary key, amount integer not null);
