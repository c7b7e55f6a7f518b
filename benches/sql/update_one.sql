-- One order changes.
update orders set amount = amount + 1 where id = 1
