-- A template: places of a log after $1, each with its key, when it changed and whether it was only listed. At most $2.
select p.modified_seq_id, (extract(epoch from p.modified_at) * 1000000)::bigint, p.listed,
    (select row_to_json(seriatim_key)::text from (select [[p.{c} as {w}|, ]]) seriatim_key)
from {places} p
where p.modified_seq_id > $1
order by p.modified_seq_id
limit $2
