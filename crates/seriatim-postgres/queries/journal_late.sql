-- Changes of transactions that committed late, by their ids. The last parameter keeps the places of those that follow.
select j.id, j.op, j.at, j.hash, j.before, j.after, false as fresh
from unnest($6::bigint[]) x
cross join lateral (
    select * from seriatim.journal_N j
    where j.xid = x::text::xid8 and j.id > $1 and j.id <= $2
        and ($4::int4[] is null or j.hash is null or j.hash % $3::int4 = any ($4))
    order by j.id limit $5
) j
where $7::bigint[] is not null
order by j.id limit $5
