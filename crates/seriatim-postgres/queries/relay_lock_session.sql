-- The lock that a session has which relays: the server frees it when the session dies.
select pg_try_advisory_lock(hashtextextended('seriatim.relay', 0))
