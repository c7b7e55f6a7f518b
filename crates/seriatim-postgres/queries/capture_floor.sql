-- From now on nothing before this tick is retained.
with forgotten as (delete from seriatim.tick where capture = $1 and n < $2)
update seriatim.capture set floor = $2 where id = $1 and floor < $2
