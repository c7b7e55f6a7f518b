-- The last tick before a moment (in microseconds), what time it is, and the oldest tick that is retained.
select (select max(t.n) from seriatim.tick t
        where t.capture = $1 and t.at < timestamptz 'epoch' + make_interval(secs => $2::bigint / 1000000.0)),
    (extract(epoch from clock_timestamp()) * 1000000)::bigint,
    (select min(t.n) from seriatim.tick t where t.capture = $1)
