-- A log that was made anew ($1) goes on after the last number of the one before it ($2). Where that is not known any more it is
-- the time in microseconds, which no log has reached by counting: positions from before are refused either way.
update seriatim.log l set repairs = floor(random() * 1000000000)::int + 1,
    repaired = setval(format('seriatim.%I', l.name || '_seq')::regclass,
        1 + coalesce($2, (extract(epoch from clock_timestamp()) * 1000000)::bigint))
where l.watched::oid = $1
