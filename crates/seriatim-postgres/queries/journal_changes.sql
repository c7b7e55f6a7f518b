-- Changes by their ids, as far as a tick saw them. What is the same for all rows is worked out once.
select j.id, j.op, j.at, j.hash, j.before, j.after, false as fresh
from seriatim.journal_N j
where j.id > $1 and j.id <= $2
    and (j.xid < (select $7::text::xid8) or pg_visible_in_snapshot(j.xid, (select $6::text::pg_snapshot)))
    and ($4::int4[] is null or j.hash is null or j.hash % $3::int4 = any ($4))
order by j.id limit $5
