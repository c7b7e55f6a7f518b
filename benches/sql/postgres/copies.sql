-- What the handler keeps: each order's latest amount.
create table copies (id bigint primary key, amount int not null);
