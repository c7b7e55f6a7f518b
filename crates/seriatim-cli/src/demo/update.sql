-- The order goes to another customer, for another amount.
update orders set customer = ?2, amount = ?3, revision = revision + 1 where id = ?1
