-- The first bare write: a signal is claimed.
insert into seriatim_once (processor, id, state, attempt, number, beat, started_at, removable_on, limit_ms)
values ('bench', ?1, 'running', ?2, 1, 0, 0, 4000000000, 30000)
