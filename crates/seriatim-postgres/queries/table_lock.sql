-- Keeps a table and its partitions from being rewritten. Takes no snapshot.
lock table {table} in access share mode
