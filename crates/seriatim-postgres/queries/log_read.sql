-- A template: places of a log after $1 up to $2, with their rows as they are now. $3: listed rows too. At most $4.
select p.modified_seq_id, (extract(epoch from p.modified_at) * 1000000)::bigint,
    case when [[seriatim_row.{w} is null| or ]]
        then (select row_to_json(seriatim_key)::text from (select [[p.{c} as {w}|, ]]) seriatim_key) else {image}::text end,
    [[seriatim_row.{w} is not null| and ]], (select row_security_active({oid}::oid)), {matches} as matches
from {places} p left join {watched} seriatim_row on [[seriatim_row.{w} = p.{c}| and ]]
where p.modified_seq_id > $1 and p.modified_seq_id <= $2 and ($3 or not p.listed)
order by p.modified_seq_id
limit $4
