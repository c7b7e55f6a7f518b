-- Writers wait behind whoever waits for a lock on their table, so that wait is short; the caller tries again.
set local lock_timeout = '3s'
