-- A tick's snapshot.
select snapshot::text from seriatim.tick where capture = $1 and n = $2
