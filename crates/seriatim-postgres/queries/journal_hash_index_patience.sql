-- An index that is made beside writers waits for transactions that are open, and nobody waits behind it.
set lock_timeout = '60s'
