-- The oldest tick of a journal that is retained.
select min(n) from seriatim.tick where capture = $1
