-- Whether this process is the sequencer: it was before, it has the sequencer's lock ($3), or the one before it was silent for 1.8 s.
-- And whether logs exist. Tells the others that the sequencer is alive.
with held as (
    insert into seriatim.sequencer as s (holder, seen_at) values ($1, clock_timestamp())
    on conflict (one) do update set holder = excluded.holder, seen_at = excluded.seen_at
    where s.holder = excluded.holder or $3 or abs(extract(epoch from s.seen_at - excluded.seen_at)) > 1.8
    returning pg_notify('seriatim_beat', '')::text
)
select exists (select 1 from held), to_regprocedure($2) is not null
