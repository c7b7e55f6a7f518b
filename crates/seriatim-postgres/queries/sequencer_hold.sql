-- Whether this process is the sequencer: it was before, or the one before it was silent for a second. And whether logs exist.
with held as (
    insert into seriatim.sequencer as s (holder, seen_at) values ($1, clock_timestamp())
    on conflict (one) do update set holder = excluded.holder, seen_at = excluded.seen_at
    where s.holder = excluded.holder or abs(extract(epoch from s.seen_at - excluded.seen_at)) > 1
    returning true
)
select exists (select 1 from held), to_regprocedure($2) is not null
