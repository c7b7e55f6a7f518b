-- Makes the counters of a queue, unless they are there. They go on from those of queues that were removed, which are kept under no name.
insert or ignore into seriatim_queue (name, last_id, last_epoch)
select ?1, coalesce(max(last_id), 0), coalesce(max(last_epoch), 0) from seriatim_queue where name = ''
