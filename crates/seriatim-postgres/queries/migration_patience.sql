-- Hosts that run wait behind whoever waits for a lock on their tables, so that wait is short.
set local lock_timeout = '5s'
