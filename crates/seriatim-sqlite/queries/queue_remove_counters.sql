-- Keeps how far the counters of a queue were, for a queue of the same name that comes later.
insert into seriatim_queue (name, last_id, last_epoch)
select '', last_id, last_epoch from seriatim_queue where name = ?1
on conflict (name) do update set last_id = max(last_id, excluded.last_id), last_epoch = max(last_epoch, excluded.last_epoch)
