-- Notes how far a journal's ids went, before it is taken out.
insert into seriatim.watermark (id)
select coalesce(pg_sequence_last_value(format('seriatim.journal_%s_id', $1::bigint)::regclass), 0)
on conflict (one) do update set id = greatest(seriatim.watermark.id, excluded.id)
