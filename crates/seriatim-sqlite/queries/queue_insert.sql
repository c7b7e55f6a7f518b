-- Makes the counters of a queue, unless they are there.
insert or ignore into seriatim_queue (name) values (?1)
