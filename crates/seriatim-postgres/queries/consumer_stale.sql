-- Consumers of a capture that hold changes back and said nothing for a minute.
select c.feed, c.store, date_trunc('second', clock_timestamp() - c.seen_at)::text from seriatim.consumer c
where c.capture = $1 and c.seen_at < clock_timestamp() - interval '1 minute'
    and exists (select 1 from seriatim.tick t where t.capture = c.capture and t.n > c.consumed)
order by c.seen_at
