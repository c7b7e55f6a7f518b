-- Nobody waits behind those who wait for their turn, so that wait may be as long as all who are before them need.
set local lock_timeout = '60s'
