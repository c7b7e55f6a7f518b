-- The first bare write: a signal is claimed.
insert into seriatim.once (processor, id, state, attempt, number, beat, beat_at, beat_in, started_at, limit_ms, removable_on)
values ('bench', $1, 'running', $2, 1, 0, now(), now(), now(), 30000, 4000000000)
