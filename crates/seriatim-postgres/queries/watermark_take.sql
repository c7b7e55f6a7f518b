-- Lets a new journal's ids begin above those of all that are gone, and of those that are there for the same table.
select setval(format('seriatim.journal_%s_id', $1::bigint)::regclass, highest.id) from (
    select greatest(
        (select w.id from seriatim.watermark w),
        (select max(pg_sequence_last_value(format('seriatim.journal_%s_id', c.id)::regclass))
         from seriatim.capture c where c.kind = 'journal' and c.relation = $2 and c.id <> $1)
    ) as id
) highest where highest.id > 0
