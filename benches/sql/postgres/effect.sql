-- Keeps an order's latest amount.
insert into copies (id, amount) values (:key_id, :new_amount) on conflict (id) do update set amount = excluded.amount
