-- Enters a worker; answers with who holds the name instead.
select session, beat, expire from seriatim.queue_join($1, $2, $3, $4, $5, $6)
