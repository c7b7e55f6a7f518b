-- The columns of each unique index that names every row once: no NULLs, no condition, no expression.
select (select array_agg(k order by at) from unnest(i.indkey::int2[]) with ordinality as u (k, at)
        where at <= i.indnkeyatts)
from pg_index i
where i.indrelid = $1 and i.indisunique and i.indisvalid and i.indimmediate and i.indpred is null and i.indexprs is null
    and not exists (
        select 1 from unnest(i.indkey::int2[]) with ordinality as u (k, at)
        join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k
        where at <= i.indnkeyatts and not a.attnotnull
    )
order by i.indexrelid
