-- Whether both ends of a batch are still retained.
select exists (select 1 from seriatim.tick where capture = $1 and n = $2)
    and exists (select 1 from seriatim.tick where capture = $1 and n = $3)
