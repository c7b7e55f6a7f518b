-- Every order changes.
update orders set amount = amount + 1
