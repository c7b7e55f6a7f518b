-- Registers a consumer. Where it begins is noted when its id is known.
insert into seriatim.consumer (capture, feed, store, start, since, existing, consumed)
values ($1, $2, $3, '', $4, $5, $4) returning id
