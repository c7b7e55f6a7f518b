-- The highest id that a journal's sequence has given.
select coalesce(pg_sequence_last_value(format('seriatim.journal_%s_id', $1::bigint)::regclass), 0)
