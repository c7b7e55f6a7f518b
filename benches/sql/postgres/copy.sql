-- Keeps an order's latest amount.
insert into copies (id, amount) values ($1, $2) on conflict (id) do update set amount = excluded.amount
