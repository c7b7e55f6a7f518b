-- Makes a queue, unless it is there.
insert into seriatim.queue (name) values ($1) on conflict do nothing
