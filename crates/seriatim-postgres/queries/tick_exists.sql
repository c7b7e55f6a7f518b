-- Whether a tick is retained.
select exists (select 1 from seriatim.tick where capture = $1 and n = $2)
