-- The newest tick of a journal.
select n, snapshot::text, at from seriatim.tick where capture = $1 order by n desc limit 1
