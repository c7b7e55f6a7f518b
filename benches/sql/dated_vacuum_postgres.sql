-- As a table is after a while.
vacuum analyze orders
