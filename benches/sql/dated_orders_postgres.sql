-- The followed table, with the moment of the last change.
create table orders (id bigint not null, customer text not null, amount int not null, note text, updated_at timestamptz not null);
